package e2e

import (
	"strings"
	"testing"
	"time"
)

// ofProbes are all objects that a probe has.
const ofProbes = "{ kubectl -n kube-system get pods -l ccmadm.dev/probe -o name; kubectl -n kube-system get lease ccmadm-probe --ignore-not-found -o name; }"

// TestDoctorProbe asks the network from each of three machines: nothing is wrong, then one thing after the other is on one machine,
// which is named. A probe that is stopped leaves nothing, and what one leaves that is killed goes with the next.
func TestDoctorProbe(t *testing.T) {
	t.Parallel()
	l := up(t, "doctorprobe", 1, 2, "--image", agentImage, "--image", adoptImage)
	l.must(t, "cp1", ccmadmInit+" --routes") // with a pod network, so that Nodes are Ready
	join := l.joinCommand(t)
	for _, w := range []string{"w1", "w2"} {
		l.must(t, w, join)
	}
	l.expectInitialized(t, "cp1", "w1", "w2")
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w2")
	l.kubectl(t, "-n kube-system rollout status deployment/coredns --timeout=240s")
	l.expectProbe(t, 0, "probe: asked from 3 Nodes", " 0 without an answer")

	for _, f := range []struct {
		name, node, do, undo string
		want                 []string
	}{
		{
			name: "the API server's Service is dropped on a worker", node: "w1",
			do: "nft add table ip hole; nft add chain ip hole output '{ type filter hook output priority -300; }'; " +
				"nft add chain ip hole pods '{ type filter hook prerouting priority -300; }'; " +
				"nft add rule ip hole output ip daddr 10.96.0.1 drop; nft add rule ip hole pods ip daddr 10.96.0.1 drop",
			undo: "nft delete table ip hole",
			want: []string{"error T1 ", ": Node/w1\n", "at 10.96.0.1:443, asked from the machine and from a pod: there is no answer"},
		},
		{
			name: "new connections to the API server are dropped on a worker, whose kubelet keeps its own", node: "w2",
			do: "nft add table ip wall; nft add chain ip wall output '{ type filter hook output priority 0; }'; " +
				"nft add rule ip wall output tcp dport 6443 ct state new drop",
			undo: "nft delete table ip wall",
			want: []string{"error T2 ", ": Node/w2\n", ":6443, asked from the machine, and not from a pod: there is no answer"},
		},
		{
			name: "forwarding is off on a worker", node: "w1", do: "sysctl -qw net.ipv4.ip_forward=0", undo: "sysctl -qw net.ipv4.ip_forward=1",
			want: []string{"error T6 ", ": Node/w1\n", "net.ipv4.ip_forward is 0", "next: on w1: sysctl -w net.ipv4.ip_forward=1"},
		},
	} {
		t.Run(f.name, func(t *testing.T) {
			l.must(t, f.node, f.do)
			defer l.must(t, f.node, f.undo)
			l.expectProbe(t, 6, f.want...)
		})
	}
	l.expectProbe(t, 0, " 0 without an answer")

	const begin = "ccmadm doctor --probe > /tmp/probe 2>&1 & run=$!; until kubectl -n kube-system get pods -l ccmadm.dev/probe -o name | grep -q .; do sleep 0.1; done; "
	t.Run("stopped", func(t *testing.T) {
		r := l.sh(t, "cp1", begin+"kill -TERM $run; wait $run; echo ended with $?; cat /tmp/probe; "+ofProbes)
		if !strings.Contains(r.out, "ended with 1\n") || strings.Contains(r.out, "pod/") || strings.Contains(r.out, "lease.") {
			t.Errorf("got\n%s", r.out)
		}
	})
	t.Run("killed, and the next", func(t *testing.T) {
		r := l.sh(t, "cp1", begin+"kill -KILL $run; wait $run; "+ofProbes)
		if !strings.Contains(r.out, "pod/ccmadm-probe-") || !strings.Contains(r.out, "lease.") {
			t.Errorf("a killed run left nothing, so that nothing is shown by this test:\n%s", r.out)
		}
		l.expectProbe(t, 0, "looking whether another probe is under way, by ccmadm doctor --probe on cp1")
	})
}

// expectProbe has the doctor ask until its exit status and its words are those. Nothing is left then.
func (l *lab) expectProbe(t *testing.T, code int, want ...string) {
	t.Helper()
	var r result
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Second) {
		r = l.sh(t, "cp1", "ccmadm doctor --probe")
		missing := 0
		for _, text := range want {
			if !strings.Contains(r.out, text) {
				missing++
			}
		}
		if r.code == code && missing == 0 {
			t.Logf("%s", r.out)
			if left := l.must(t, "cp1", ofProbes); left != "" {
				t.Errorf("a probe left %s", left)
			}
			return
		}
	}
	t.Errorf("exit status %d, want %d and %q\n%s", r.code, code, want, r.out)
}
