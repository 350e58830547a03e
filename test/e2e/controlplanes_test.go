package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestControlPlanes: three control planes, the second and third by `ccmadm join --control-plane`; then the machine
// that holds the cloud-controller-manager's lease loses its power.
func TestControlPlanes(t *testing.T) {
	l := up(t, "three", 3, 2)
	// The lab's machines know a name and port behind which all control planes stand, as behind a load balancer.
	l.must(t, "cp1", "sed 's/^kind: ClusterConfiguration/&\\ncontrolPlaneEndpoint: api:8443/' "+kubeadmYAML+" > /tmp/three.yaml")
	out := l.must(t, "cp1", strings.Replace(ccmadmInit, kubeadmYAML, "/tmp/three.yaml", 1)+" --upload-certs")
	key := certificateKey(out)
	if key == "" {
		t.Fatalf("no certificate key in the output of init:\n%s", out)
	}
	join := l.joinCommand(t)
	for _, cp := range []string{"cp2", "cp3"} {
		t.Logf("%s", l.must(t, cp, join+" --control-plane --certificate-key "+key))
	}
	l.must(t, "w1", join)
	l.expectInitialized(t, "cp1", "cp2", "cp3", "w1")

	holder := l.leaseHolder(t)
	survivor := "cp1"
	if holder == "cp1" {
		survivor = "cp2"
	}
	l.run(t, "kill", "--name", l.name, holder)
	lost := time.Now()
	time.Sleep(time.Until(lost.Add(20 * time.Second))) // what is asked for: nodes that join 20 s later
	l.must(t, "w2", strings.Replace(join, "--ignore", "--timeout 30s --ignore", 1))
	t.Logf("a node that began to join %s after the loss was initialized %s after it", 20*time.Second, time.Since(lost).Round(time.Second))
	got := l.must(t, survivor, "kubectl --kubeconfig /etc/kubernetes/admin.conf get node w2 -o jsonpath='{.spec.providerID} {.spec.taints[*].key}'")
	if !strings.HasPrefix(got, "onprem://") || strings.Contains(got, taint) {
		t.Errorf("w2 is not initialized: %s", got)
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
