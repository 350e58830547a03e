package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestControlPlanes: three control planes, the second and third by `ccmadm join --control-plane`; then the machine
// that holds the cloud-controller-manager's lease loses its power.
func TestControlPlanes(t *testing.T) {
	l := up(t, "three", 3, 2)
	endpoint := strings.TrimSpace(l.must(t, "cp1", "hostname -I | awk '{print $1}'"))
	// The control-plane endpoint is a name, as it would be with a load balancer; the lab has none, so each machine
	// resolves it, and after the loss of cp1 to a machine that lives.
	for _, n := range l.nodes {
		l.must(t, n, fmt.Sprintf("echo '%s api.lab' >> /etc/hosts", endpoint))
	}
	out := l.must(t, "cp1", ccmadmInit+" --control-plane-endpoint api.lab:6443 --upload-certs")
	key := certificateKey(out)
	if key == "" {
		t.Fatalf("no certificate key in the output of init:\n%s", out)
	}
	join := l.joinCommand(t)
	for _, cp := range []string{"cp2", "cp3"} {
		t.Logf("%s", l.must(t, cp, join+" --control-plane --certificate-key "+key))
	}
	l.must(t, "w1", join)
	l.expectInitialised(t, "cp1", "cp2", "cp3", "w1")

	holder := l.leaseHolder(t)
	survivor := "cp1"
	if holder == "cp1" {
		survivor = "cp2"
	}
	address := strings.TrimSpace(l.must(t, survivor, "hostname -I | awk '{print $1}'"))
	l.run(t, "kill", "--name", l.name, holder)
	lost := time.Now()
	for _, n := range l.nodes {
		if n != holder {
			l.must(t, n, fmt.Sprintf("sed 's/^.* api.lab$/%s api.lab/' /etc/hosts > /tmp/hosts && cat /tmp/hosts > /etc/hosts", address))
		}
	}
	time.Sleep(time.Until(lost.Add(20 * time.Second))) // what is asked for: nodes that join 20 s later
	l.must(t, "w2", strings.Replace(join, "--ignore", "--timeout 30s --ignore", 1))
	t.Logf("a node that began to join %s after the loss was initialised %s after it", 20*time.Second, time.Since(lost).Round(time.Second))
	got := l.must(t, survivor, "kubectl --kubeconfig /etc/kubernetes/admin.conf get node w2 -o jsonpath='{.spec.providerID} {.spec.taints[*].key}'")
	if !strings.HasPrefix(got, "onprem://") || strings.Contains(got, taint) {
		t.Errorf("w2 is not initialised: %s", got)
	}
	l.run(t, "start", "--name", l.name, holder)
	eventually(t, 90*time.Second, "the machine that came back is ready to serve", func() bool {
		return l.sh(t, holder, "kubectl --kubeconfig /etc/kubernetes/admin.conf get --raw /readyz").code == 0
	})
}

// leaseHolder is the machine whose cloud-controller-manager leads.
func (l *lab) leaseHolder(t testing.TB) string {
	t.Helper()
	identity := l.kubectl(t, "-n kube-system get lease cloud-controller-manager -o jsonpath={.spec.holderIdentity}")
	host, _, ok := strings.Cut(strings.TrimSpace(identity), "_")
	if !ok {
		t.Fatalf("the lease's holder is %q", identity)
	}
	return host
}

func certificateKey(output string) string {
	lines := strings.Split(output, "\n")
	for i, line := range lines {
		if strings.Contains(line, "Using certificate key:") && i+1 < len(lines) {
			return strings.TrimSpace(lines[i+1])
		}
	}
	return ""
}
