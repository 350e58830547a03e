package e2e

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

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
		{what: "no kube-proxy", inject: "kubectl -n kube-system get daemonset kube-proxy" + saved + "daemonset kube-proxy", undo: restore},
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
