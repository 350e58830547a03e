package e2e

import (
	"strings"
	"testing"
	"time"
)

// sharedEndpoint makes /tmp/three.yaml. The lab's machines know a name and port behind which all control planes stand, as
// behind a load balancer.
const sharedEndpoint = `sed 's/^kind: ClusterConfiguration/&\ncontrolPlaneEndpoint: api:8443/' ` + kubeadmYAML + " > /tmp/three.yaml"

// behindReadyz has machines reach the control planes as behind a load balancer that asks for /readyz: one that joins, or is
// restarted, is half there again and again.
func (l *lab) behindReadyz(t *testing.T) {
	t.Helper()
	for _, node := range l.nodes {
		l.must(t, node, `sed -i 's/^\(ENDPOINTS=[^ ]*\).*/\1/' /etc/lab/api.env && systemctl restart lab-api`)
	}
}

// TestControlPlanes: three control planes, the second and third by `ccmadm join --control-plane`; then the machine
// that holds the cloud-controller-manager's lease loses its power.
func TestControlPlanes(t *testing.T) {
	t.Parallel()
	l := up(t, "three", 3, 2)
	l.must(t, "cp1", sharedEndpoint)
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
	l.expectApplyOfStaticPods(t, "cp1", "cp2", "cp3")

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

// listedFour is an inventory of three control planes and a worker.
const listedFour = `apiVersion: ccmadm.dev/v1alpha1
kind: Inventory
metadata: {site: ber1, serial: 1}
defaults: {region: ber, zone: ber-a}
policy: {unknownNodes: hold}
machines:
- {id: r1-u01, hostname: cp1, protected: true}
- {id: r1-u02, hostname: cp2, protected: true}
- {id: r1-u03, hostname: cp3, protected: true}
- {id: r1-u04, hostname: w1, zone: ber-b}
`

// TestControlPlanes_Inventory: three control planes with an inventory that has changed since init, by a second init on
// the first of them. When that one loses its power, the next leader goes by the same list.
func TestControlPlanes_Inventory(t *testing.T) {
	t.Parallel()
	l := up(t, "three-inv", 3, 1)
	l.put(t, "/tmp/cloud.conf", onpremConfig)
	l.put(t, "/tmp/inventory.yaml", listedFour)
	l.must(t, "cp1", sharedEndpoint)
	out := l.must(t, "cp1", strings.Replace(ccmadmInit, kubeadmYAML, "/tmp/three.yaml", 1)+
		" --upload-certs --cloud-config /tmp/cloud.conf --inventory /tmp/inventory.yaml")
	join := l.joinCommand(t)
	l.must(t, "w1", join)
	for _, cp := range []string{"cp2", "cp3"} {
		l.must(t, cp, join+" --control-plane --certificate-key "+certificateKey(out))
	}
	l.expectZone(t, "cp1", "w1", "ber-b")

	if holder := l.leaseHolder(t); holder != "cp1" {
		t.Fatalf("%s leads, want the first control plane", holder)
	}
	again := strings.Replace(ccmadmInit, kubeadmYAML, "/tmp/three.yaml", 1) + " --inventory /tmp/inventory.yaml"
	next := strings.Replace(listedFour, "ber-b", "ber-c", 1)
	l.put(t, "/tmp/inventory.yaml", next)
	if r := l.sh(t, "cp1", again); r.code != 5 || !strings.Contains(r.out, "its serial is 1, there it is 1") {
		t.Errorf("a list that differs and is not newer: exit status %d, want 5\n%s", r.code, r.out)
	}
	l.put(t, "/tmp/inventory.yaml", strings.Replace(next, "serial: 1", "serial: 2", 1))
	l.must(t, "cp1", again)
	l.expectZone(t, "cp1", "w1", "ber-c")
	l.expectConfirmed(t)

	l.run(t, "kill", "--name", l.name, "cp1")
	const kubectl = "kubectl --kubeconfig /etc/kubernetes/admin.conf "
	eventually(t, 2*time.Minute, "another control plane leads", func() bool {
		r := l.sh(t, "cp2", kubectl+"-n kube-system get lease cloud-controller-manager -o jsonpath={.spec.holderIdentity}")
		return r.code == 0 && !strings.HasPrefix(r.out, "cp1_")
	})
	for range 10 { // it reads the list every second
		time.Sleep(2 * time.Second)
		l.expectZone(t, "cp2", "w1", "ber-c")
		if nodes := l.must(t, "cp2", kubectl+"get nodes -o name"); len(strings.Fields(nodes)) != 4 {
			t.Fatalf("the nodes are %q, want all four", nodes)
		}
	}
}

// expectZone asks a control plane for the zone of a Node, for a minute at most.
func (l *lab) expectZone(t *testing.T, controlPlane, node, want string) {
	t.Helper()
	eventually(t, time.Minute, "Node/"+node+" is in "+want, func() bool {
		return l.sh(t, controlPlane, "kubectl --kubeconfig /etc/kubernetes/admin.conf get node "+node+
			` -o jsonpath='{.metadata.labels.topology\.kubernetes\.io/zone}'`).out == want
	})
}
