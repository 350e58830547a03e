package routes

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A thousand Nodes: an agent that starts on a machine without routes, one that starts where all are there, and one
// after which a fifth of the Nodes has another address.
func TestKernel_AgentThousandRoutes(t *testing.T) {
	r, nodes, converged := newThousand(t)
	r.start(nodes...)
	t.Logf("1,000 routes on an empty machine: %s", eventually(t, "all are set", converged))
	before := r.pods()
	r.stop()
	for n := 800; n <= 1000; n++ {
		moved := node(fmt.Sprint("n", n), []string{fmt.Sprintf("198.19.%d.%d", n/250, 2+n%250)}, nodes[n].Spec.PodCIDRs...)
		r.source.Modify(moved)
	}
	r.start()
	took := eventually(t, "all are reported", converged)
	t.Logf("restart with 1,000 routes of which 201 lead elsewhere now: %s", took)
	if took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	if len(before) != 1001 || len(r.pods()) != 1001 {
		t.Errorf("%d routes before and %d after, want 1001", len(before), len(r.pods()))
	}
}

// newThousand makes a machine in a network with a thousand Nodes, and says when it has reported their routes.
func newThousand(t testing.TB) (r *running, nodes []*corev1.Node, converged func() bool) {
	t.Helper()
	r = newRunning(t)
	r.Address("eth0", "198.18.0.1/15")
	nodes = []*corev1.Node{node("a", []string{"198.18.0.1"}, "10.244.0.0/26")}
	for n := 1; n <= 1000; n++ {
		address := fmt.Sprintf("198.18.%d.%d", n/250, 2+n%250)
		nodes = append(nodes, node(fmt.Sprint("n", n), []string{address}, fmt.Sprintf("10.244.%d.%d/26", n/4, n%4*64)))
	}
	return r, nodes, func() bool { routes, _ := r.reported(); return len(routes) == 1001 }
}

// How long an agent takes that starts on a machine with the routes to a thousand Nodes, and on one that has lost them.
func BenchmarkKernel_AgentRestart(b *testing.B) {
	for _, tt := range []struct {
		name string
		lost bool
	}{{"routes are there", false}, {"routes are lost", true}} {
		b.Run(tt.name, func(b *testing.B) {
			r, nodes, converged := newThousand(b)
			r.start(nodes...)
			eventually(b, "all are set", converged)
			for b.Loop() {
				b.StopTimer()
				r.stop()
				if left, err := r.Leftovers(); tt.lost {
					if err = errors.Join(err, r.Remove(left)); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				r.start()
				eventually(b, "all are reported", converged)
			}
		})
	}
}
