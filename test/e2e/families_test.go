package e2e

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestIPFamilies: clusters on machines that have IPv6 only, and on machines that have both. Every Node gets the
// addresses of its machine, of each family, and pods reach each other by each of theirs.
func TestIPFamilies(t *testing.T) {
	tests := []struct {
		family string
		want   []string // families of a Node's internal addresses, the cluster's first one first
	}{
		{
			family: "ipv6",
			want:   []string{"IPv6"},
		},
		{
			family: "dual",
			want:   []string{"IPv4", "IPv6"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.family, func(t *testing.T) {
			t.Parallel()
			l := up(t, tt.family, 1, 2, "--ip-family", tt.family)
			l.must(t, "cp1", ccmadmInit)
			join := l.joinCommand(t)
			for _, w := range []string{"w1", "w2"} {
				l.must(t, w, join)
			}
			l.expectCluster(t, "cp1", "w1", "w2")
			for name, node := range l.nodesNow(t) {
				if diff := cmp.Diff(tt.want, families(node)); diff != "" {
					t.Errorf("internal addresses of %s, %v (-want +got):\n%s", name, node.Status.Addresses, diff)
				}
			}
		})
	}
}

// families are those of a Node's internal addresses.
func families(n corev1.Node) []string {
	var found []string
	for _, a := range n.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		switch {
		case a.Type != corev1.NodeInternalIP:
		case err != nil:
			found = append(found, a.Address)
		case ip.Is4():
			found = append(found, "IPv4")
		default:
			found = append(found, "IPv6")
		}
	}
	return found
}
