package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

// pairs have both faults of each be there at once, and both be named. Those that need no new pod are taken: of a manager
// that does not start, the first thing that keeps it from starting is all there is to see.
func (l *library) pairs(t *testing.T) {
	find := func(what string) injected {
		all := slices.Concat(objectFaults()...)
		i := slices.IndexFunc(all, func(f injected) bool { return f.what == what })
		if i < 0 {
			t.Fatalf("no fault is called %q", what)
		}
		return all[i]
	}
	for _, p := range [][2]string{
		{"RBAC: create events taken", "webhook on nodes fails closed"},
		{"RBAC: list services taken", "--cloud-provider gone from kubeadm-flags.env"},
		{"webhook on pods fails closed", "Service on a port of the Nodes"},
		{"RBAC: update leases taken", "Service that asks for a pool that is not there"},
		{"webhook on leases fails closed", "RBAC: watch nodes taken"},
	} {
		a, b := find(p[0]), find(p[1])
		t.Run(fmt.Sprintf("%s and %s", a.what, b.what), func(t *testing.T) { l.pair(t, a, b) })
	}
}

func (l *library) pair(t *testing.T, a, b injected) {
	l.expectSilent(t, "before", foundWithin)
	l.inject(t, a)
	l.inject(t, b)
	want := ids([]cause{{ID: a.id}, {ID: b.id}})
	named, others, ok := l.until(t, want, foundWithin)
	if !ok {
		t.Errorf("want %s, got %+v; before that %v", want, named, others)
	}
	for _, f := range []injected{a, b} {
		i := slices.IndexFunc(named, func(c cause) bool { return c.ID == f.id })
		if i < 0 {
			l.repair(t, f)
			continue
		}
		l.heal(t, f, named[i].Next)
	}
	l.expectSilent(t, "after both remedies", foundWithin)
}

// unknown is what the catalogue does not have. May lists what the doctor may say of it, for it is true as well.
type unknown struct {
	what, on, inject, undo string
	may                    []string
	// watched is how long it lasts. Zero: unknownFor.
	watched time.Duration
}

// unknowns: whatever the doctor says, it names no wrong cause.
func (l *library) unknowns(t *testing.T) {
	const saved, restore = " -o yaml > /root/saved.yaml; kubectl -n kube-system delete ", "kubectl create -f /root/saved.yaml"
	for _, u := range []unknown{
		{what: "a firewall between two workers", on: "w1", inject: "nft add table ip wall; nft add chain ip wall input '{ type filter hook input priority 0; }'; nft add rule ip wall input ip saddr 198.18.0.0/15 udp dport 53 drop", undo: "nft delete table ip wall"},
		{what: "an MTU that is too small", on: "w2", inject: "ip link set dev eth0 mtu 1280", undo: "ip link set dev eth0 mtu 1500"},
		{what: "no CoreDNS", inject: "kubectl -n kube-system scale deployment/coredns --replicas=0", undo: "kubectl -n kube-system scale deployment/coredns --replicas=2"},
		{what: "no kube-proxy", inject: "kubectl -n kube-system get daemonset kube-proxy" + saved + "daemonset kube-proxy", undo: restore},
		{what: "no scheduler", inject: "mv /etc/kubernetes/manifests/kube-scheduler.yaml /root/", undo: "mv /root/kube-scheduler.yaml /etc/kubernetes/manifests/"},
		{what: "no kube-controller-manager", inject: "mv /etc/kubernetes/manifests/kube-controller-manager.yaml /root/", undo: "mv /root/kube-controller-manager.yaml /etc/kubernetes/manifests/"},
		{what: "a quota on pods of kube-system", inject: "kubectl -n kube-system create quota none --hard=pods=0", undo: "kubectl -n kube-system delete quota none"},
		{what: "a ConfigMap renamed", inject: "kubectl -n kube-system get configmap coredns" + saved + "configmap coredns", undo: restore},
		{what: "no forwarding", on: "w1", inject: "sysctl -w net.ipv4.ip_forward=0", undo: "sysctl -w net.ipv4.ip_forward=1"},
		{what: "a manager that hangs", inject: "kill -STOP $(pidof cloud-controller-manager)", undo: "kill -CONT $(pidof cloud-controller-manager)", may: []string{"W7", "W13"}, watched: 20 * time.Second},
	} {
		t.Run(u.what, func(t *testing.T) {
			l.inject(t, injected{on: u.on, inject: u.inject})
			for until := time.Now().Add(cmp.Or(u.watched, unknownFor)); time.Now().Before(until); time.Sleep(time.Second) {
				if got := l.roots(t); len(got) > 0 && !slices.Contains(u.may, ids(got)) {
					t.Errorf("it names a cause: %+v", got)
					break
				}
			}
			l.inject(t, injected{on: u.on, inject: u.undo})
			l.expectSilent(t, "afterwards", 2*foundWithin)
		})
	}
}

// unknownFor is for how long the doctor is asked of each.
const unknownFor = 8 * time.Second
