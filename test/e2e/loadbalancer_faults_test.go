package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// faults are in an order in which each leaves the machines as it found them.
func (l *lab) faults(t *testing.T, b contender) []fault {
	agentPod := "pod " + b.agents + " --field-selector spec.nodeName="
	soon, power := 100*time.Millisecond, 1500*time.Millisecond
	faults := []fault{
		{
			name: "agent's pod deleted", watch: 8 * time.Second, wanted: 0, limit: soon, owner: "moves",
			do: func(owner string) { l.kubectl(t, "delete --wait=false "+agentPod+owner) },
		},
		{
			name: "agent killed", watch: 6 * time.Second, wanted: 0, limit: soon,
			do: func(owner string) { l.must(t, owner, "kill -9 $(pidof "+b.program+")") },
		},
		{
			name: "drain", watch: 4 * time.Second, wanted: 0, limit: soon, owner: "moves",
			do:   func(owner string) { l.kubectl(t, "label node "+owner+" "+b.leave+"=true") },
			undo: func(owner string) { l.kubectl(t, "label node "+owner+" "+b.leave+"-") },
		},
		{
			name: "kubelet stopped", watch: 8 * time.Second, wanted: 0, limit: soon, owner: "stays",
			do:   func(owner string) { l.must(t, owner, "systemctl stop kubelet") },
			undo: func(owner string) { l.must(t, owner, "systemctl start kubelet") },
		},
		{
			name: "partition of the owner", watch: 12 * time.Second, wanted: power, limit: 2 * power, owner: "moves", unlimited: "BGP",
			do:   func(owner string) { l.isolate(t, owner, clientMachine) },
			undo: func(owner string) { l.must(t, owner, "nft delete table inet partition") },
		},
		{
			name: "power cut", watch: 12 * time.Second, wanted: power, limit: 2 * power, owner: "moves",
			do:   func(owner string) { l.run(t, "kill", "--name", l.name, owner) },
			undo: func(owner string) { l.run(t, "start", "--name", l.name, owner) },
		},
		{
			name: "API away", watch: 8 * time.Second, wanted: 0, limit: soon, owner: "stays",
			do: func(string) { l.apiAway(t) },
		},
		{
			name: "power cut, API away", watch: 12 * time.Second, wanted: power, limit: 2 * power, owner: "moves",
			do: func(owner string) { l.run(t, "kill", "--name", l.name, owner) },
			undo: func(owner string) {
				l.must(t, "cp1", "mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/")
				l.run(t, "start", "--name", l.name, owner)
				eventually(t, 60*time.Second, "the API server is back", func() bool { return l.sh(t, "cp1", admin+"get --raw /readyz").code == 0 })
			},
		},
	}
	if b.who == ownName {
		faults = append(faults, fault{
			name: "power cut, BFD at defaults", watch: 12 * time.Second, wanted: 1200 * time.Millisecond, limit: 2 * power,
			owner: "moves",
			prepare: func() {
				l.kubectl(t, `patch bgppeer router --type merge -p '{"spec":{"bfd":{"interval":null,"multiplier":null}}}'`)
			},
			do:   func(owner string) { l.run(t, "kill", "--name", l.name, owner) },
			undo: func(owner string) { l.run(t, "start", "--name", l.name, owner) },
		})
	}
	return faults
}

// isolate cuts a machine off from all others but the client's, to which nobody sends by multicast.
func (l *lab) isolate(t *testing.T, owner, client string) {
	t.Helper()
	var others []string
	for _, m := range l.nodes {
		if m != owner && m != client {
			others = append(others, l.address(t, m))
		}
	}
	set := "{ " + strings.Join(others, ", ") + " }"
	l.must(t, owner, fmt.Sprintf(`nft -f - <<'END'
table inet partition {
 chain in { type filter hook input priority -300; ip saddr %[1]s drop; }
 chain out { type filter hook output priority -300; ip daddr %[1]s drop; ip daddr 224.0.0.0/4 drop; }
 chain through { type filter hook forward priority -300; ip daddr %[1]s drop; ip saddr %[1]s drop; }
}
END`, set))
}

// apiAway stops the only API server. Its kubelet takes a moment to notice.
func (l *lab) apiAway(t *testing.T) {
	t.Helper()
	l.must(t, "cp1", "mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/ && pkill kube-apiserver")
}
