package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// pairsCluster is the section of docs/contributing/faults.md with those.
const pairsCluster = "Two at once, static pod, provider onprem"

// pairs are faults of which two can be seen at once, by what they are called. Of a manager that does not start, the
// first thing that keeps it from starting is all that there is to see: the other one is somebody else's. What is
// injected by a run of ccmadm stands first, for that would repair the other one.
func pairs() [][2]string {
	const (
		noFlag                  = "--cloud-provider gone from kubeadm-flags.env"
		overridden              = "--cloud-provider overridden in /etc/default/kubelet"
		dropIn                  = "--cloud-provider overridden by a drop-in of systemd"
		noCNI, byHand           = "CNI configuration removed", "Node made again by hand, without taint and provider ID"
		behind                  = "clock more than three minutes behind, which the kubelet's Lease shows"
		newer, edited           = "record of a newer version", "journal edited by hand"
		noEvents, noLeases      = "RBAC: create events taken", "RBAC: update leases taken"
		noServices, noAddresses = "RBAC: list services taken", "RBAC: patch services/status taken"
		onPods, onLeases        = "webhook on pods fails closed", "webhook on leases fails closed"
		onServices, onNodes     = "webhook on services fails closed", "webhook on nodes fails closed"
		noPool                  = "Service that asks for a pool that is not there"
		noAddress               = "Service that asks for an address of no pool"
		onPort, noAgents        = "Service on a port of the Nodes", "pool of addresses, and no agent to announce them"
	)
	return slices.Concat([][2]string{
		{noEvents, onNodes},
		{noServices, noFlag},
		{onPods, onPort},
		{noLeases, noPool},
		{onLeases, "RBAC: watch nodes taken"},
		{noEvents, noCNI},
		{"RBAC: RoleBinding to extension-apiserver-authentication-reader deleted", dropIn},
		{"RBAC: update nodes taken", noPool},
		{"RBAC: patch nodes/status taken", noCNI},
		{newer, overridden},
		{edited, noAddress},
		{onServices, noCNI},
		{newer, "mutating webhook on everything fails closed"},
		{byHand, noAddresses},
		{byHand, noAgents},
		{overridden, noPool},
		{noFlag, noCNI},
		{behind, onServices},
		{behind, noAddress},
		{"RBAC: ClusterRoleBinding deleted", overridden},
		{edited, "RBAC: list nodes taken"},
		{newer, onLeases},
		{"RBAC: ClusterRole deleted", noCNI},
	}, pairsOfMachines(), pairsOfManagers())
}

// pairsOfMachines are seen by the doctor on the machine.
func pairsOfMachines() [][2]string {
	return [][2]string{
		{"kubelet not enabled", "resolver on loopback"},
		{"manifest that is no YAML", "no room where etcd writes"},
		{"flag in a file, and the kubelet not started again", "kubelet not enabled"},
	}
}

// pairsOfManagers have one that does not run, or does not lead.
func pairsOfManagers() [][2]string {
	return [][2]string{
		{"argument that the manager does not know", "--cloud-provider gone from kubeadm-flags.env"},
		{"image that no registry has", "RBAC: create events taken"},
		{"manifest of the static pod removed", "CNI configuration removed"},
		{"Lease held by another program", "webhook on services fails closed"},
		{"journal edited by hand", "cloud config that is not there"},
		{"client certificate that has ended", "--cloud-provider overridden in /etc/default/kubelet"},
	}
}

// pair has two faults be there at once. Both are named, and nothing beside them, errors before warnings; what is
// printed is run in that order. The row is for docs/contributing/faults.md.
func (l *library) pair(t *testing.T, a, b injected) (row string) {
	row = fmt.Sprintf("| %s %s | %s %s | ", a.id, cell(a.what), b.id, cell(b.what))
	l.expectSilent(t, "before", foundWithin)
	l.inject(t, a)
	l.inject(t, b)
	if a.host {
		l.host = a.on
		defer func() { l.host = "" }()
	}
	start := time.Now()
	want := ids([]cause{{ID: a.id}, {ID: b.id}})
	named, others, ok := l.until(t, want, foundWithin)
	found := time.Since(start).Seconds()
	if !ok {
		t.Errorf("want %s, got %+v; before that %v", want, named, others)
		l.remedies(t, a, b, named)
		l.repair(t, a)
		l.repair(t, b)
		return row + fmt.Sprintf("NO: it names %q | %.0f | - | - |", ids(named), found)
	}
	if !slices.IsSortedFunc(named, func(x, y cause) int { return strings.Compare(x.Severity, y.Severity) }) {
		t.Errorf("a warning stands before an error: %+v", named)
	}
	start = time.Now()
	order := l.remedies(t, a, b, named)
	worked := "yes"
	if !l.expectSilent(t, "after both remedies", foundWithin) || t.Failed() {
		worked = "NO: see the log"
		l.repair(t, a)
		l.repair(t, b)
	}
	return row + fmt.Sprintf("%s | %.0f | %s | %.0f |", strings.Join(order, ", "), found, worked, time.Since(start).Seconds())
}

// remedies runs what was printed for either of two faults, in this order, which it returns.
func (l *library) remedies(t *testing.T, a, b injected, named []cause) (order []string) {
	t.Helper()
	for _, c := range named {
		order = append(order, string(c.ID))
		for _, f := range []injected{a, b} {
			if f.id == c.ID {
				l.heal(t, f, c.Next)
			}
		}
	}
	return order
}

// TestFaults_Pairs has two faults at once, and then faults that are in no list, which get no wrong name. Without -faults it has one pair
// of each kind: of objects, of a machine, and of the manager.
func TestFaults_Pairs(t *testing.T) {
	t.Parallel()
	l := newLibrary(t, "faultspairs", objectCluster, "")
	l.run(t, "cp", "--name", l.name, buildProgram(t, "clock"), "w1:/usr/local/bin/clock")
	var rows []string
	list := pairs()
	if !*allFaults {
		list = [][2]string{list[0], pairsOfMachines()[0], pairsOfManagers()[0]}
	}
	for _, p := range list {
		a, _ := faultCalled(p[0])
		b, _ := faultCalled(p[1])
		t.Run(a.what+" and "+b.what, func(t *testing.T) { rows = append(rows, l.pair(t, a, b)) })
	}
	text := "\n## " + pairsCluster + "\n\n| One | Another | Named, in this order | s | Remedies worked | s |\n" +
		"|---|---|---|---|---|---|\n" + strings.Join(rows, "\n") + "\n"
	if err := os.WriteFile(measuredFile(t, "faults-pairs.md"), []byte(text), 0o644); err != nil {
		t.Error(err)
	}
	if *allFaults {
		t.Run("Unknown", l.unknowns)
	}
}

// faultCalled finds one of those of a cluster with the provider onprem as a static pod.
func faultCalled(what string) (injected, bool) {
	all := slices.Concat(slices.Concat(objectFaults(), staticFaults())...)
	i := slices.IndexFunc(all, func(f injected) bool { return f.what == what })
	if i < 0 {
		return injected{}, false
	}
	return all[i], true
}
