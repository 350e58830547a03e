package routes

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Metrics of our routes. A kernel replaces a route only by one of the same metric, and no other's has these. The
// unreachable route of the machine's own range gives way to whatever leads to its pods.
const (
	metric            = v1alpha1.RouteProtocol
	unreachableMetric = math.MaxInt32
)

// route is one of the main table. Link is the index of its interface; an invalid Via with Unreachable leads nowhere.
type route struct {
	Destination netip.Prefix
	Via         netip.Addr
	Link        int
	Metric      int
	Protocol    int
	Unreachable bool
}

func (r route) ours() bool { return r.Protocol == v1alpha1.RouteProtocol }

// verb is what is done to a route.
type verb string

const (
	add     verb = "add"     // which fails where there is one of the same metric
	replace verb = "replace" // which puts it in the place of ours of the same metric
	remove  verb = "remove"
)

// change is one step; intent is the one that it is for, if any.
type change struct {
	verb   verb
	route  route
	intent Intent
}

// errNotOnLink: an address is in none of this machine's networks, which is an answer of the kernel.
var errNotOnLink = errors.New("is in none of this machine's networks: pod routes need a next hop that is")

// errNoWay: the kernel has no way at all to an address. It may be so for a moment only, while an interface gets its
// address again.
var errNoWay = errors.New("no way")

// plan compares what should be with what is. It changes and removes routes of our protocol only, and adds none for a
// range for which another program has one; ours goes then, so that a range has one owner. onLink returns the interface in
// whose network an address is, or errNotOnLink. With any other error ours stays: of errNoWay only one that is as it should
// be, else whatever it is.
func plan(intents []Intent, kernel []route, onLink func(netip.Addr) (link int, err error)) (
	changes []change, settled []Intent, problems []v1alpha1.RouteProblem,
) {
	ours, foreign := map[netip.Prefix][]route{}, map[netip.Prefix]route{}
	for _, r := range kernel {
		if r.ours() {
			ours[r.Destination] = append(ours[r.Destination], r)
		} else {
			foreign[r.Destination] = r
		}
	}
	wanted := map[netip.Prefix]bool{}
	for _, intent := range intents {
		other, taken := foreign[intent.Destination]
		if taken && intent.Via.IsValid() {
			problems = append(problems, intent.problem(Foreign, other.describe()))
			continue
		}
		want, err := wantedRoute(intent, onLink)
		if err != nil {
			problems = append(problems, intent.problem(Unreachable, err.Error()))
			there := slices.ContainsFunc(ours[intent.Destination], want.sameHop)
			if errors.Is(err, errNotOnLink) || errors.Is(err, errNoWay) && !there {
				continue
			}
			wanted[intent.Destination] = true
			if there {
				settled = append(settled, intent)
			}
			continue
		}
		wanted[intent.Destination] = true
		step, surplus := compare(want, ours[intent.Destination])
		changes = append(changes, surplus...)
		if step == "" {
			settled = append(settled, intent)
			continue
		}
		changes = append(changes, change{verb: step, route: want, intent: intent})
	}
	for _, r := range kernel {
		if r.ours() && !wanted[r.Destination] {
			changes = append(changes, change{verb: remove, route: r})
		}
	}
	// First what is in the way, then what is new.
	slices.SortStableFunc(changes, func(a, b change) int { return a.verb.rank() - b.verb.rank() })
	return changes, settled, problems
}

func (v verb) rank() int {
	if v == remove {
		return 0
	}
	return 1
}

// compare says what makes want of our routes for a range, and which of these are too many.
func compare(want route, have []route) (step verb, surplus []change) {
	step = add
	keep := slices.Index(have, want)
	if keep >= 0 {
		step = ""
	} else if keep = slices.IndexFunc(have, want.replaces); keep >= 0 {
		step = replace
	}
	for i, r := range have {
		if i != keep {
			surplus = append(surplus, change{verb: remove, route: r})
		}
	}
	return step, surplus
}

// replaces reports whether the kernel puts r in the other's place.
func (r route) replaces(other route) bool {
	return r.Metric == other.Metric && r.Unreachable == other.Unreachable
}

// sameHop reports whether a route leads where r should, by whatever interface.
func (r route) sameHop(other route) bool { return r.Via == other.Via && r.replaces(other) }

// wantedRoute is the route for an intent. Its Link is not valid where there is an error.
func wantedRoute(intent Intent, onLink func(netip.Addr) (int, error)) (route, error) {
	r := route{Destination: intent.Destination, Protocol: v1alpha1.RouteProtocol}
	if !intent.Via.IsValid() {
		r.Unreachable, r.Metric = true, unreachableMetric
		return r, nil
	}
	link, err := onLink(intent.Via)
	r.Via, r.Link, r.Metric = intent.Via, link, metric
	return r, err
}

func (r route) describe() string {
	via := "directly"
	if r.Via.IsValid() {
		via = "via " + r.Via.String()
	}
	return fmt.Sprintf("a route of protocol %d, set by another program, leads there %s: it stays as it is", r.Protocol, via)
}
