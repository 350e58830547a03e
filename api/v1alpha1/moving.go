package v1alpha1

import (
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxMoves is how many entries MoveToAnnotation may have, and maxMoveBytes its length with that many of the longest.
const (
	maxMoves     = 8
	maxMoveBytes = maxMoves * (45 + 1 + 2*validation.DNS1123SubdomainMaxLength + 2)
)

// Move is the consent of a Service that another one takes over its address.
//
// +k8s:deepcopy-gen=false
type Move struct {
	Address netip.Addr
	// To is the Service that may.
	To types.NamespacedName
}

// String is an entry of MoveToAnnotation.
func (m Move) String() string { return m.Address.String() + "=" + m.To.String() }

// ParseMoveTo reads the value of MoveToAnnotation: ADDRESS=NAMESPACE/NAME with commas, spaces around them ignored. The empty text
// has none. A list with anything else in it is an error as a whole, so that it gives no consent that was not meant.
func ParseMoveTo(text string) ([]Move, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if len(text) > maxMoveBytes {
		return nil, fmt.Errorf("the list has %d bytes, and at most %d are read", len(text), maxMoveBytes)
	}
	if n := strings.Count(text, ",") + 1; n > maxMoves {
		return nil, fmt.Errorf("the list has %d entries, and at most %d are read", n, maxMoves)
	}
	var moves []Move
	seen := map[netip.Addr]bool{}
	for part := range strings.SplitSeq(text, ",") {
		m, err := parseMove(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		if seen[m.Address] {
			return nil, fmt.Errorf("%s has two entries, and goes to one Service", m.Address)
		}
		seen[m.Address] = true
		moves = append(moves, m)
	}
	return moves, nil
}

func parseMove(part string) (Move, error) {
	first, to, both := strings.Cut(part, "=")
	namespace, name, whole := strings.Cut(to, "/")
	if !both || !whole {
		return Move{}, fmt.Errorf("%q has not the form ADDRESS=NAMESPACE/NAME", part)
	}
	address, err := netip.ParseAddr(first)
	if err != nil || address.Zone() != "" {
		return Move{}, fmt.Errorf("%q is no address", first)
	}
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return Move{}, fmt.Errorf("%q is no name of a namespace: %s", namespace, problems[0])
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return Move{}, fmt.Errorf("%q is no name of a Service: %s", name, problems[0])
	}
	return Move{Address: address.Unmap(), To: types.NamespacedName{Namespace: namespace, Name: name}}, nil
}
