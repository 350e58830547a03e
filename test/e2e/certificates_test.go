package e2e

import (
	"strings"
	"testing"
	"time"
)

const managerConf = "/etc/kubernetes/cloud-controller-manager.conf"

// expectRefusedRenewal: with an external CA it is its owner who renews.
func (l *lab) expectRefusedRenewal(t *testing.T) {
	r := l.sh(t, "cp1", "ccmadm certs renew")
	if r.code != 5 || !strings.Contains(r.out, "has no ca.key") {
		t.Errorf("exit status %d, want 5 and what is missing\n%s", r.code, r.out)
	}
	out := l.must(t, "cp1", "ccmadm certs check-expiration -o json")
	if !strings.Contains(out, `"externallyManaged": true`) {
		t.Errorf("not shown as externally managed:\n%s", out)
	}
	l.must(t, "cp1", "! systemctl cat ccmadm-certs.timer")
}

// expectRenewals is about the years after: an identity near its end, and a CA that is about to be replaced. What the
// timer of the first day starts repairs both, and the running cloud-controller-manager goes on with what it wrote.
func (l *lab) expectRenewals(t *testing.T, user string) {
	t.Run("a certificate that ends in 20 days", func(t *testing.T) {
		l.must(t, "cp1", ccmadmInit) // the CA's key is here now: so is the timer
		l.must(t, "cp1", "systemctl is-active ccmadm-certs.timer && systemctl is-enabled ccmadm-certs.timer")
		l.must(t, "cp1", "kubeadm kubeconfig user --validity-period 480h --client-name "+user+" --config "+kubeadmYAML+
			" | install -m 600 /dev/stdin "+managerConf)
		if out := l.sh(t, "cp1", "ccmadm status").out; !strings.Contains(out, "W16") { // the manager may not lead yet
			t.Errorf("status does not warn:\n%s", out)
		}
		if out := l.must(t, "cp1", "ccmadm certs check-expiration"); !strings.Contains(out, "19d") {
			t.Errorf("want an end in 19 days and some hours:\n%s", out)
		}
		before := l.lease(t)
		l.must(t, "cp1", "systemctl start ccmadm-certs.service") // as its timer does
		l.must(t, "cp1", certificate+"| openssl x509 -noout -checkend $((300*24*3600))")
		l.expectNewLeader(t)
		t.Logf("led again %s after the last renewal by the former", l.lease(t).acquired.Sub(before.renewed))
		if out := l.must(t, "cp1", "ccmadm status"); strings.Contains(out, "W16") {
			t.Errorf("status still warns:\n%s", out)
		}
		if out := l.must(t, "cp1", "ccmadm certs renew --if-within 720h"); !strings.Contains(out, "unchanged") {
			t.Errorf("a second run does not leave it alone:\n%s", out)
		}
	})
	t.Run("a bundle of two CAs", func(t *testing.T) {
		l.must(t, "cp1", "openssl req -x509 -newkey rsa:2048 -nodes -keyout /root/next.key -out /root/next.crt -subj /CN=next -days 10 2>&1")
		l.must(t, "cp1", "cat /root/next.crt >> /etc/kubernetes/pki/ca.crt")
		l.must(t, "cp1", "systemctl start ccmadm-certs.service")
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

// held is who leads since when.
type held struct {
	holder            string
	acquired, renewed time.Time
}

func (l *lab) lease(t *testing.T) held {
	t.Helper()
	out := l.kubectl(t, "-n kube-system get lease cloud-controller-manager "+
		"-o jsonpath='{.spec.holderIdentity} {.spec.acquireTime} {.spec.renewTime}'")
	fields := strings.Fields(out)
	if len(fields) != 3 {
		t.Fatalf("nobody holds the Lease: %s", out)
	}
	h := held{holder: fields[0]}
	for i, into := range []*time.Time{&h.acquired, &h.renewed} {
		at, err := time.Parse(time.RFC3339, fields[i+1])
		if err != nil {
			t.Fatal(err)
		}
		*into = at
	}
	return h
}

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
