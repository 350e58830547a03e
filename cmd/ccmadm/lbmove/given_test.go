package lbmove

import (
	"slices"
	"testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// What OLD gave away before, and no longer asks for, leaves the list for the next move: eight fill it.
func TestPlan_GivenAwayBefore(t *testing.T) {
	w := newWorld()
	w.add("shop/web", "192.0.2.52")
	w.old().Annotations[v1alpha1.MoveToAnnotation] = "192.0.2.52=shop/web,192.0.2.59=shop/gone"
	var says []string
	for _, c := range w.plan().Changes {
		if c.Service == "ingress/old" {
			says = append(says, c.After)
		}
	}
	if want := []string{"192.0.2.50=gateway/new"}; !slices.Equal(says, want) {
		t.Errorf("OLD would say %q, want %q", says, want)
	}
}
