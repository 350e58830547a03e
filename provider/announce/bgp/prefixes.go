package bgp

import (
	"fmt"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
)

const (
	// maxPrefixes is how many paths of a family a router may send. None is used, but GoBGP keeps them, in about 1 kB each: a router
	// without a filter that sends the routes of the whole Internet would take a gigabyte from every Node at once.
	maxPrefixes = 50_000
	// maxPrefixesPause is how long there is no session with such a router before it is tried again.
	maxPrefixesPause = time.Minute
)

// prefixLimit is [maxPrefixes] for GoBGP, which ends a session that exceeds it and does not begin another.
func prefixLimit(family *api.Family) *api.PrefixLimit {
	return &api.PrefixLimit{Family: family, MaxPrefixes: maxPrefixes}
}

// exceeded reports whether GoBGP has ended a session since the router sends too many paths.
func exceeded(state apiutil.PeerState) bool {
	return state.AdminState == api.PeerState_ADMIN_STATE_PFX_CT
}

func tooManyPrefixes() string {
	return fmt.Sprintf("session ended: the router sends more than %d routes, and is asked again each minute: it should send none to Nodes",
		maxPrefixes)
}
