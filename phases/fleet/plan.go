package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

// WorkersFirst sorts nodes: workers, then control planes, this machine last. A worker that fails costs least, and this machine
// drives the rest.
func WorkersFirst(plan []*Node) {
	sortBy(plan, func(n *Node) int {
		switch {
		case n.Here:
			return 2
		case n.ControlPlane:
			return 1
		}
		return 0
	})
}

// ControlPlanesFirst sorts nodes: control planes, then workers. No kubelet may be newer than an API server.
func ControlPlanesFirst(plan []*Node) {
	sortBy(plan, func(n *Node) int {
		if n.ControlPlane {
			return 0
		}
		return 1
	})
}

// sortBy sorts nodes by rank, and those of one rank by their names.
func sortBy(plan []*Node, rank func(*Node) int) {
	slices.SortFunc(plan, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
}

// RefuseProblems names what stands against nodes that are not skipped. Left is what --skip would leave.
func RefuseProblems(plan []*Node, left string) error {
	var wrong []error
	var names []string
	for _, n := range plan {
		if len(n.Problems) > 0 && !n.Skipped {
			wrong = append(wrong, fmt.Errorf("%s: %s", n.Name, strings.Join(n.Problems, "; ")))
			names = append(names, n.Name)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return finding.Refusedf("%w", errors.Join(wrong...)).
		WithHint("--skip %s leaves %s; nothing was changed", strings.Join(names, ","), left)
}
