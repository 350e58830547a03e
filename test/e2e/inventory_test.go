package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	inventoryFile = "/etc/kubernetes/cloud-config/inventory.yaml"

	onpremConfig = `apiVersion: ccmadm.dev/v1alpha1
kind: OnPremConfiguration
inventory: {interval: 1s, silence: 1m, deletionDelay: 10s}
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

// put writes a file on cp1.
func (l *lab) put(t testing.TB, path, content string) {
	t.Helper()
	l.putOn(t, "cp1", path, content)
}

// putOn writes a file on a machine.
func (l *lab) putOn(t testing.TB, machine, path, content string) {
	t.Helper()
	l.must(t, machine, "cat > "+path+" <<'END'\n"+content+"END\n")
}

// replaceFile swaps the inventory's file as an administrator's tool would: beside it, then renamed.
func (l *lab) replaceFile(t *testing.T, content string) {
	t.Helper()
	l.put(t, inventoryFile+".new", content)
	l.must(t, "cp1", "mv -T "+inventoryFile+".new "+inventoryFile)
}

// replaceInventory changes the ConfigMap that all control planes read.
func (l *lab) replaceInventory(t *testing.T, content string) {
	t.Helper()
	l.put(t, "/tmp/next.yaml", content)
	const file = "--from-file=inventory.yaml=/tmp/next.yaml"
	l.kubectl(t, "-n kube-system create configmap ccmadm-machines "+file+" --dry-run=client -o yaml | "+
		admin+"apply --server-side --force-conflicts -f -")
}

// expectDiff compares the cluster with an inventory, and returns the table.
func (l *lab) expectDiff(t *testing.T, content string, code int, want ...string) {
	t.Helper()
	l.put(t, "/tmp/next.yaml", content)
	r := l.sh(t, "cp1", "ccmadm machines diff -f /tmp/next.yaml")
	if r.code != code {
		t.Errorf("exit status %d, want %d", r.code, code)
	}
	out := strings.Join(strings.Fields(r.out), " ")
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("the diff does not say %q:\n%s", w, r.out)
		}
	}
}

// expectRejected waits until the operator is told that a reading was rejected, and why.
func (l *lab) expectRejected(t *testing.T, reason string) {
	t.Helper()
	eventually(t, 60*time.Second, "the last good copy is stale: "+reason, func() bool {
		state := l.inventoryState(t)
		return strings.HasPrefix(state, "Stale: ") && strings.Contains(state, reason)
	})
	eventually(t, 20*time.Second, "an Event says "+reason, func() bool {
		return strings.Contains(l.kubectl(t, "-n kube-system get events --field-selector reason=InventoryRejected"), reason)
	})
}

func (l *lab) inventoryState(t *testing.T) string {
	t.Helper()
	return l.kubectl(t, `-n kube-system get configmap ccmadm-machines-last-good -o jsonpath='{.metadata.annotations.ccmadm\.dev/inventory-state}'`)
}

func (l *lab) expectConfirmed(t *testing.T) {
	t.Helper()
	eventually(t, 60*time.Second, "the inventory is good again", func() bool { return l.inventoryState(t) == "Confirmed" })
}

// expectNodes fails unless exactly these are there, and their kubelets work.
func (l *lab) expectNodes(t *testing.T, names ...string) {
	t.Helper()
	nodes := l.nodesNow(t)
	if len(nodes) != len(names) {
		t.Errorf("%d nodes, want %v", len(nodes), names)
	}
	l.expectInitialized(t, names...)
}

// TestInventory: an inventory says which machines are nodes, where they stand, and when one is gone. It is a file,
// since that can be broken in the most ways.
func TestInventory(t *testing.T) {
	t.Parallel()
	l := up(t, "inventory", 1, 2)
	l.put(t, "/tmp/cloud.conf", strings.Replace(onpremConfig, "{", "{file: "+inventoryFile+", ", 1))
	l.put(t, "/tmp/inventory.yaml", listedTwo)
	l.must(t, "cp1", ccmadmInit+" --cloud-config /tmp/cloud.conf --credential inventory.yaml=/tmp/inventory.yaml")
	join := l.joinCommand(t)
	l.must(t, "w1", join)
	got := l.kubectl(t, `get node w1 -o jsonpath='{.spec.providerID} {.metadata.labels.topology\.kubernetes\.io/zone}'`)
	if got != "onprem://ber1/r1-u02 ber-b" {
		t.Errorf("w1 is %q, want the machine of the inventory in its zone", got)
	}

	listedThree := strings.Replace(listedTwo, "serial: 1", "serial: 2", 1) + "- {id: r1-u03, hostname: w2}\n"
	t.Run("a machine that is not listed stays tainted and says why", func(t *testing.T) {
		r := l.sh(t, "w2", join+" --timeout 15s")
		if r.code != 4 {
			t.Errorf("exit status %d, want 4\n%s", r.code, r.out)
		}
		events := l.kubectl(t, "get events --field-selector involvedObject.name=w2,type=Warning")
		if !strings.Contains(events, "inventory") {
			t.Errorf("no Event says that w2 is not in the inventory:\n%s", events)
		}
		if list := l.must(t, "cp1", "ccmadm machines list -f "+inventoryFile); !strings.Contains(list, "stuck: no machine of the inventory matches this Node") {
			t.Errorf("machines list does not say so:\n%s", list)
		}
	})
	l.expectDiff(t, listedThree, 6, "w2 r1-u03 initialize providerID: - -> onprem://ber1/r1-u03")
	l.expectDiff(t, strings.Replace(listedThree, "serial: 2", "serial: 0", 1), 3, "would be rejected: OlderSerial")
	l.replaceFile(t, listedThree)
	l.must(t, "cp1", "ccmadm wait w2 --timeout 90s")
	eventually(t, 30*time.Second, "every Node is as the inventory says", func() bool {
		return l.sh(t, "cp1", "ccmadm machines diff -f "+inventoryFile).code == 0
	})

	t.Run("an inventory that cannot be right deletes nothing", func(t *testing.T) {
		for content, reason := range map[string]string{
			"":                   "Malformed",
			"<html>503</html>\n": "Malformed",
			strings.SplitAfter(listedThree, "machines:\n")[0] + "  []\n": "Empty",
			listedTwo: "OlderSerial",
		} {
			l.replaceFile(t, content)
			l.expectRejected(t, reason)
		}
		l.expectNodes(t, "cp1", "w1", "w2")
		l.replaceFile(t, listedThree)
		l.expectConfirmed(t)
	})
	t.Run("an inventory that cannot be read deletes nothing", func(t *testing.T) {
		for _, tc := range []struct{ name, breakIt, fix string }{
			{"without permissions", "chmod 000 " + inventoryFile, "chmod 600 " + inventoryFile},
			{"of another owner", "chown 65532 " + inventoryFile, "chown 0 " + inventoryFile},
			{"a directory", "mv " + inventoryFile + " /tmp/kept && mkdir " + inventoryFile, "rmdir " + inventoryFile + " && mv /tmp/kept " + inventoryFile},
			{"a link that leads nowhere", "mv " + inventoryFile + " /tmp/kept && ln -s /nowhere " + inventoryFile, "mv -T /tmp/kept " + inventoryFile},
		} {
			t.Run(tc.name, func(t *testing.T) {
				l.must(t, "cp1", tc.breakIt)
				l.expectRejected(t, "Unreadable")
				l.expectNodes(t, "cp1", "w1", "w2")
				l.must(t, "cp1", tc.fix)
				l.expectConfirmed(t)
			})
		}
	})
	t.Run("a machine that is decommissioned and switched off loses its Node, and not before", func(t *testing.T) {
		gone := strings.Replace(strings.Replace(listedThree, "serial: 2", "serial: 3", 1), "hostname: w2", "hostname: w2, state: decommissioned", 1)
		l.expectDiff(t, gone, 6, "w2 r1-u03 delete kept: its kubelet still posts status")
		l.replaceFile(t, gone)
		time.Sleep(20 * time.Second)
		if _, there := l.nodesNow(t)["w2"]; !there {
			t.Fatal("the Node of a machine that talks is gone")
		}
		l.run(t, "kill", "--name", l.name, "w2")
		off := time.Now()
		server := serveInventory(t, l, "w1")
		t.Run("meanwhile, the inventory moves to a server", func(t *testing.T) { l.testServer(t, server, gone) })
		eventually(t, 4*time.Minute, "Node/w2 goes", func() bool { _, there := l.nodesNow(t)["w2"]; return !there })
		t.Logf("Node/w2 was deleted %s after the power was cut", time.Since(off).Round(time.Second))
		if events := l.kubectl(t, "get events -A --field-selector involvedObject.name=w2"); !strings.Contains(events, "will be deleted") {
			t.Errorf("the deletion was not announced:\n%s", events)
		}
		l.expectNodes(t, "cp1", "w1")
	})
}

// testServer gives the cloud-controller-manager an https address in place of the file. As long as the server has no
// inventory to offer, the last good one counts, and the Node of the machine that was switched off stays.
func (l *lab) testServer(t *testing.T, s *inventoryServer, document string) {
	l.put(t, "/tmp/ca.crt", s.authority)
	l.put(t, "/tmp/url.conf", fmt.Sprintf(`apiVersion: ccmadm.dev/v1alpha1
kind: OnPremConfiguration
inventory: {url: %q, caFile: /etc/kubernetes/cloud-config/ca.crt, interval: 1s, silence: 1m, deletionDelay: 10s}
`, s.url))
	l.put(t, "/tmp/url.yaml", `apiVersion: ccmadm.dev/v1alpha1
kind: CloudConfiguration
cloudConfig: {file: /tmp/url.conf}
credentials: [{key: ca.crt, file: /tmp/ca.crt}]
`)
	s.answer(500, "the database is away")
	l.must(t, "cp1", "ccmadm apply -f /tmp/url.yaml")
	l.expectRejected(t, "500 Internal Server Error")
	s.answer(200, "<!DOCTYPE html><title>Log in</title><p>Your session has expired.</p>")
	l.expectRejected(t, "Malformed")
	s.answer(200, strings.SplitAfter(document, "machines:\n")[0]+"  []\n")
	l.expectRejected(t, "Empty")
	l.expectNodes(t, "cp1", "w1", "w2")
	s.answer(200, document)
	l.expectConfirmed(t)
	l.expectNodes(t, "cp1", "w1", "w2")
}
