package balancer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// changing are statuses of Services, each "NAME BEFORE AFTER" with - for no address.
func changing(lines ...string) map[types.NamespacedName]*evaluation.Status {
	statuses := map[types.NamespacedName]*evaluation.Status{}
	for _, line := range lines {
		words := strings.Fields(line)
		service := func(addresses string) *corev1.Service {
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: words[0]}}
			for address := range strings.SplitSeq(addresses, ",") {
				if address != "-" {
					s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: address})
				}
			}
			return s
		}
		statuses[named("a/"+words[0])] = &evaluation.Status{Service: service(words[1]), After: service(words[2])}
	}
	return statuses
}

func texts(names []types.NamespacedName) string {
	var list []string
	for _, name := range names {
		list = append(list, name.Name)
	}
	slices.Sort(list)
	return fmt.Sprint(list)
}

func TestOrder(t *testing.T) {
	move := []string{"old 192.0.2.1 -", "new 192.0.2.2 192.0.2.1", "fresh - 192.0.2.9", "gone 192.0.2.8 -", "same 192.0.2.7 192.0.2.7"}
	for _, tt := range []struct {
		name, layers string
		overlap      bool
		lines        []string
	}{
		{"with kube-proxy", "[fresh gone same] [new] [old]", true, move},
		{"with another program", "[fresh gone same] [old] [new]", false, move},
		{"a crash behind the first with kube-proxy", "[new old] []", true, []string{"old 192.0.2.1 -", "new 192.0.2.1 192.0.2.1"}},
		{"a crash behind the first without", "[new old] []", false, []string{"old - -", "new - 192.0.2.1"}},
		{"a swap", "[] [] [new] [old]", true, []string{"old 192.0.2.1 192.0.2.2", "new 192.0.2.2 192.0.2.1"}},
		{
			"a swap, and one that gives to it", "[] [] [b] [0d a]", true,
			[]string{"0d 2001:db8::1 -", "a 192.0.2.1 192.0.2.2", "b 192.0.2.2 192.0.2.1,2001:db8::1"},
		},
		{
			"both families to two Services", "[] [four six] [old]", true,
			[]string{"old 192.0.2.1,2001:db8::1 -", "four - 192.0.2.1", "six - 2001:db8::1"},
		},
		{"a chain with kube-proxy", "[] [c] [b] [a]", true, []string{"a 192.0.2.1 -", "b 192.0.2.2 192.0.2.1", "c - 192.0.2.2"}},
		{"a chain without", "[] [a] [b] [c]", false, []string{"a 192.0.2.1 -", "b 192.0.2.2 192.0.2.1", "c - 192.0.2.2"}},
	} {
		var layers []string
		for _, layer := range orderOf(changing(tt.lines...), tt.overlap).layers {
			layers = append(layers, texts(layer))
		}
		if got := strings.Join(layers, " "); got != tt.layers {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.layers)
		}
	}
}

// Who is written second waits where the first one was not written. Without kube-proxy it is enough that the address is withdrawn.
func TestOrder_Held(t *testing.T) {
	statuses := changing("old 192.0.2.1 -", "new 192.0.2.2 192.0.2.1")
	for _, tt := range []struct {
		fails, later             string
		overlap, withdrawn, held bool
	}{
		{"new", "old", true, false, true},
		{"new", "old", true, true, true}, // it has lost its former address, and does not have the other
		{"old", "new", false, false, true},
		{"old", "new", false, true, false},
		{"", "old", true, false, false},
	} {
		w := newWritten()
		if tt.fails != "" {
			w.lacks(named("a/"+tt.fails), tt.withdrawn)
		}
		if got := w.held(orderOf(statuses, tt.overlap), statuses[named("a/"+tt.later)]); len(got) > 0 != tt.held {
			t.Errorf("%+v: held %v", tt, got)
		}
	}
}

// Of a chain nothing is written after the one that failed: the address of the last one would be in no status.
func TestOrder_HeldInAChain(t *testing.T) {
	chain := changing("a 192.0.2.1 -", "b 192.0.2.2 192.0.2.1", "c - 192.0.2.2")
	for overlap, fails := range map[bool]string{true: "c", false: "a"} {
		w, o := newWritten(), orderOf(chain, overlap)
		w.lacks(named("a/"+fails), false)
		var tried []string
		for _, names := range o.layers {
			for _, name := range names {
				if len(w.held(o, chain[name])) == 0 {
					tried = append(tried, name.Name)
				}
			}
		}
		if len(tried) > 0 {
			t.Errorf("overlap %t: %v are written", overlap, tried)
		}
	}
}
