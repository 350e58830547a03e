package e2e

import (
	"strings"
	"testing"
	"time"
)

const (
	inventoryFile = "/etc/kubernetes/cloud-config/inventory.yaml"

	onpremConfig = `apiVersion: ccmadm.dev/v1alpha1
kind: OnPremConfiguration
inventory: {file: ` + inventoryFile + `, interval: 1s, silence: 1m, deletionDelay: 10s}
`
	cloudDocument = `---
apiVersion: ccmadm.dev/v1alpha1
kind: CloudConfiguration
cloudConfig: {file: /tmp/cloud.conf}
credentials: [{key: inventory.yaml, file: /tmp/inventory.yaml}]
`
	listedTwo = `apiVersion: ccmadm.dev/v1alpha1
kind: Inventory
metadata: {site: ber1, serial: 1}
defaults: {region: ber, zone: ber-a}
policy: {unknownNodes: hold}
machines:
- {id: r1-u01, hostname: cp1, protected: true}
- {id: r1-u02, hostname: w1, zone: ber-b}
`
)

// replaceInventory swaps the file as an administrator's tool would: beside it, then renamed.
func (l *lab) replaceInventory(t *testing.T, content string) {
	t.Helper()
	l.must(t, "cp1", "cat > /tmp/i.yaml <<'END'\n"+content+"END\nmv /tmp/i.yaml "+inventoryFile+".new && mv "+inventoryFile+".new "+inventoryFile)
}

// TestInventory: an inventory says which machines are nodes, where they stand, and when one is gone.
func TestInventory(t *testing.T) {
	l := up(t, "inventory", 1, 2)
	l.must(t, "cp1", "cat > /tmp/cloud.conf <<'END'\n"+onpremConfig+"END\ncat > /tmp/inventory.yaml <<'END'\n"+listedTwo+"END\n(cat "+kubeadmYAML+"; cat <<'END'\n"+cloudDocument+"END\n) > /tmp/k.yaml")
	l.must(t, "cp1", strings.Replace(ccmadmInit, kubeadmYAML, "/tmp/k.yaml", 1))
	join := l.joinCommand(t)
	l.must(t, "w1", join)
	got := l.kubectl(t, `get node w1 -o jsonpath='{.spec.providerID} {.metadata.labels.topology\.kubernetes\.io/zone}'`)
	if got != "onprem://ber1/r1-u02 ber-b" {
		t.Errorf("w1 is %q, want the machine of the inventory in its zone", got)
	}

	t.Run("a machine that is not listed stays tainted and says why", func(t *testing.T) {
		r := l.sh(t, "w2", join+" --timeout 15s")
		if r.code != 4 {
			t.Errorf("exit status %d, want 4\n%s", r.code, r.out)
		}
		events := l.kubectl(t, "get events --field-selector involvedObject.name=w2,type=Warning")
		if !strings.Contains(events, "inventory") {
			t.Errorf("no Event says that w2 is not in the inventory:\n%s", events)
		}
		if list := l.must(t, "cp1", "ccmadm machines list -f "+inventoryFile); !strings.Contains(list, "stuck: no machine of the inventory is this Node") {
			t.Errorf("machines list does not say so:\n%s", list)
		}
	})
	listedThree := strings.Replace(listedTwo, "serial: 1", "serial: 2", 1) + "- {id: r1-u03, hostname: w2}\n"
	l.replaceInventory(t, listedThree)
	l.must(t, "cp1", "ccmadm wait w2 --timeout 90s")

	t.Run("an inventory that cannot be right deletes nothing", func(t *testing.T) {
		for _, broken := range []string{"", "<html>503</html>\n", strings.SplitAfter(listedThree, "machines:\n")[0], listedTwo} {
			l.replaceInventory(t, broken)
			time.Sleep(3 * time.Second)
		}
		if nodes := l.nodesNow(t); len(nodes) != 3 {
			t.Errorf("%d nodes are left of 3", len(nodes))
		}
	})
	t.Run("a machine that is decommissioned and switched off loses its Node, and not before", func(t *testing.T) {
		gone := strings.Replace(strings.Replace(listedThree, "serial: 2", "serial: 3", 1), "hostname: w2", "hostname: w2, state: decommissioned", 1)
		l.replaceInventory(t, gone)
		time.Sleep(20 * time.Second)
		if _, there := l.nodesNow(t)["w2"]; !there {
			t.Fatal("the Node of a machine that talks is gone")
		}
		l.run(t, "kill", "--name", l.name, "w2")
		off := time.Now()
		eventually(t, 4*time.Minute, "Node/w2 goes", func() bool { _, there := l.nodesNow(t)["w2"]; return !there })
		t.Logf("Node/w2 was deleted %s after the power was cut", time.Since(off).Round(time.Second))
		if events := l.kubectl(t, "get events -A --field-selector involvedObject.name=w2"); !strings.Contains(events, "will be deleted") {
			t.Errorf("the deletion was not announced:\n%s", events)
		}
		if nodes := l.nodesNow(t); len(nodes) != 2 {
			t.Errorf("%d nodes are left, want cp1 and w1", len(nodes))
		}
	})
}
