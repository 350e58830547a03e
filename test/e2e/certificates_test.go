package e2e

import (
	"strings"
	"testing"
	"time"
)

const managerConf = "/etc/kubernetes/cloud-controller-manager.conf"

// expectRenewals is about the years after: an identity near its end, and a CA that is about to be replaced. The same
// command as on the first day repairs both, and the running cloud-controller-manager goes on with what it wrote.
func (l *lab) expectRenewals(t *testing.T, user string) {
	t.Run("a certificate that ends in 20 days", func(t *testing.T) {
		l.must(t, "cp1", "kubeadm kubeconfig user --validity-period 480h --client-name "+user+" --config "+kubeadmYAML+
			" | install -m 600 /dev/stdin "+managerConf)
		if out := l.sh(t, "cp1", "ccmadm status").out; !strings.Contains(out, "W16") { // the manager may not lead yet
			t.Errorf("status does not warn:\n%s", out)
		}
		l.must(t, "cp1", ccmadmInit)
		l.must(t, "cp1", certificate+"| openssl x509 -noout -checkend $((300*24*3600))")
		l.expectNewLeader(t)
		if out := l.must(t, "cp1", "ccmadm status"); strings.Contains(out, "W16") {
			t.Errorf("status still warns:\n%s", out)
		}
	})
	t.Run("a bundle of two CAs", func(t *testing.T) {
		l.must(t, "cp1", "openssl req -x509 -newkey rsa:2048 -nodes -keyout /root/next.key -out /root/next.crt -subj /CN=next -days 10 2>&1")
		l.must(t, "cp1", "cat /root/next.crt >> /etc/kubernetes/pki/ca.crt")
		l.must(t, "cp1", ccmadmInit)
		if n := strings.TrimSpace(l.must(t, "cp1", trusted+"| grep -c BEGIN")); n != "2" {
			t.Errorf("%s trusts %s CAs, want 2", managerConf, n)
		}
		l.expectNewLeader(t)
	})
}

const (
	certificate = "awk '/client-certificate-data/ {print $2}' " + managerConf + " | base64 -d "
	trusted     = "awk '/certificate-authority-data/ {print $2}' " + managerConf + " | base64 -d "
)

// expectNewLeader waits until a cloud-controller-manager that was started after the file was written renews its Lease.
func (l *lab) expectNewLeader(t *testing.T) {
	t.Helper()
	written := l.must(t, "cp1", "date -u +%FT%TZ -r "+managerConf)
	eventually(t, 2*time.Minute, "a manager of after the change leads", func() bool {
		r := l.sh(t, "cp1", admin+"-n kube-system get lease cloud-controller-manager -o jsonpath='{.spec.acquireTime}/{.spec.holderIdentity}'")
		acquired, holder, _ := strings.Cut(r.out, "/") // who lets go writes the time, too
		return r.code == 0 && holder != "" && acquired > strings.TrimSpace(written)
	})
}
