package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// identities is the inventory of TestMachineIdentity. A machine is recognized by its UUID, which in the lab is that of
// /etc/machine-id: its machines have no DMI.
const identities = `apiVersion: ccmadm.dev/v1alpha1
kind: Inventory
metadata: {site: ber1, serial: 1}
policy: {unknownNodes: hold}
machines:
- {id: r1, hostname: cp1, protected: true}
- {id: r2, match: {systemUUID: %s}}
`

// TestMachineIdentity: what becomes of a Node when its machine is cloned, gets another network card, or another name.
func TestMachineIdentity(t *testing.T) {
	t.Parallel()
	l := up(t, "identity", 1, 2)
	uuid := strings.TrimSpace(l.must(t, "w1", "cat /etc/machine-id"))
	document := fmt.Sprintf(identities, uuid)
	l.put(t, "/tmp/cloud.conf", onpremConfig)
	l.put(t, "/tmp/inventory.yaml", document)
	l.put(t, "/tmp/cloud.yaml", `apiVersion: ccmadm.dev/v1alpha1
kind: CloudConfiguration
cloudConfig: {file: cloud.conf}
inventory: inventory.yaml
controllerManager: {extraArgs: [--node-status-update-frequency=10s]}
`)
	l.must(t, "cp1", strings.Replace("(cat "+kubeadmYAML+"; echo ---; cat /tmp/cloud.yaml) > /tmp/k.yaml; "+ccmadmInit, "--config "+kubeadmYAML, "--config /tmp/k.yaml", 1))
	join := l.joinCommand(t)
	l.must(t, "w1", join)
	l.expectNodes(t, "cp1", "w1")

	own := strings.TrimSpace(l.must(t, "w2", "cat /etc/machine-id"))
	t.Run("a clone does not become the machine that it was cloned from", func(t *testing.T) {
		l.must(t, "w2", "echo "+uuid+" > /etc/machine-id")
		if r := l.sh(t, "w2", join+" --timeout 20s"); r.code != 4 {
			t.Errorf("exit status %d, want 4\n%s", r.code, r.out)
		}
		l.expectWarning(t, "w2", "MachineTaken", "onprem://ber1/r2 is Node/w1, too")
		l.expectDiff(t, document, 6, "w2 r2 stuck", "is Node/w1, too")
		nodes := l.nodesNow(t)
		if len(nodes) != 3 || initialized(nodes["w2"]) == "" || nodes["w2"].Spec.ProviderID != "" {
			t.Errorf("%d nodes, w2 has provider ID %q", len(nodes), nodes["w2"].Spec.ProviderID)
		}
		l.expectInitialized(t, "cp1", "w1")
	})
	address := strings.TrimSpace(l.must(t, "w2", "ip -4 -o address show dev eth0 | awk '{print $4}'"))
	ip, mask, _ := strings.Cut(address, "/")
	document = strings.Replace(document, "serial: 1", "serial: 2", 1) +
		fmt.Sprintf("- {id: r3, match: {systemUUID: %s, macs: ['52:54:00:00:00:01']}, addresses: [{type: InternalIP, address: %s}]}\n", own, ip)
	l.replaceInventory(t, document)
	l.must(t, "w2", "echo "+own+" > /etc/machine-id; systemctl restart kubelet")
	l.must(t, "cp1", "ccmadm wait w2 --timeout 90s")
	l.expectProviderID(t, "w2", "onprem://ber1/r3")

	t.Run("a new network card: the Node keeps its addresses until the inventory has the new ones", func(t *testing.T) {
		next := ip[:strings.LastIndex(ip, ".")] + ".250"
		l.must(t, "w2", fmt.Sprintf(`ip link set eth0 address 52:54:00:00:00:02 && ip address add %s/%s dev eth0 &&
sed -i 's/--node-ip=%s/--node-ip=%s/' /var/lib/kubelet/kubeadm-flags.env && systemctl restart kubelet`, next, mask, ip, next))
		l.expectWarning(t, "w2", "AddressNotListed", "--node-ip="+next)
		l.expectDiff(t, document, 6, "w2 r3 stuck", "--node-ip="+next)
		if got := l.addresses(t, "w2"); got != ip {
			t.Errorf("the addresses of w2 are %q, want those that are listed, %s", got, ip)
		}
		document = strings.NewReplacer("serial: 2", "serial: 3", "address: "+ip, "address: "+next, "52:54:00:00:00:01", "52:54:00:00:00:02").Replace(document)
		l.expectDiff(t, document, 6, "w2 r3 update addresses: Hostname=w2,InternalIP="+ip+" -> Hostname=w2,InternalIP="+next)
		l.replaceInventory(t, document)
		eventually(t, 90*time.Second, "w2 has the new address", func() bool { return l.addresses(t, "w2") == next })
		l.expectProviderID(t, "w2", "onprem://ber1/r3")
		l.expectNodes(t, "cp1", "w1", "w2")
	})
	t.Run("a machine under another name is the same machine", func(t *testing.T) {
		l.must(t, "w1", "ccmadm reset --force")
		off := time.Now()
		out := l.must(t, "w1", join+" --node-name w1-new --timeout 4m")
		t.Logf("w1-new was initialized %s after w1 was reset:\n%s", time.Since(off).Round(time.Second), out)
		l.expectWarning(t, "w1-new", "MachineTaken", "is Node/w1, too")
		l.expectProviderID(t, "w1-new", "onprem://ber1/r2")
		l.run(t, "network", "--name", l.name) // Ready, which only a Node with a network is
		l.expectWarning(t, "w1", "MachineTaken", "list it with hostname w1-new")
		if _, there := l.nodesNow(t)["w1"]; !there {
			t.Fatal("Node/w1 is gone, and nobody has said that it was renamed")
		}
		document = strings.NewReplacer("serial: 3", "serial: 4", "{id: r2,", "{id: r2, hostname: w1-new,").Replace(document)
		l.expectDiff(t, document, 6, "w1 r2 delete")
		l.replaceInventory(t, document)
		eventually(t, 4*time.Minute, "Node/w1 goes", func() bool { _, there := l.nodesNow(t)["w1"]; return !there })
		t.Logf("Node/w1 was deleted %s after the reset", time.Since(off).Round(time.Second))
		l.expectNodes(t, "cp1", "w1-new", "w2")
		l.expectWarning(t, "w1", "DeletionAnnounced", "has another name")
	})
}

// expectWarning waits for an Event on a Node.
func (l *lab) expectWarning(t *testing.T, node, reason, words string) {
	t.Helper()
	eventually(t, 90*time.Second, "Node/"+node+" is told "+reason+": "+words, func() bool {
		return strings.Contains(l.kubectl(t, "get events -A --field-selector involvedObject.name="+node+",type=Warning,reason="+reason), words)
	})
}

func (l *lab) expectProviderID(t *testing.T, node, want string) {
	t.Helper()
	if got := l.nodesNow(t)[node].Spec.ProviderID; got != want {
		t.Errorf("the provider ID of %s is %q, want %q", node, got, want)
	}
}

// addresses are the InternalIPs of a Node.
func (l *lab) addresses(t *testing.T, node string) string {
	t.Helper()
	return l.kubectl(t, "get node "+node+` -o jsonpath='{.status.addresses[?(@.type=="InternalIP")].address}'`)
}
