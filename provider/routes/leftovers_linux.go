package routes

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ccmadm/ccmadm/provider/netfilter"
)

// Leftovers are what agents have put into a kernel.
type Leftovers struct {
	// Routes are those of the main table with our protocol and one of our metrics.
	Routes []route
	// Table says that there is the one that masquerades pods.
	Table bool
}

// Empty says that there is nothing.
func (l Leftovers) Empty() bool { return len(l.Routes) == 0 && !l.Table }

// Lines name each of them as ip(8) and nft(8) do.
func (l Leftovers) Lines() []string {
	var list []string
	for _, r := range l.Routes {
		line := "route "
		if r.Unreachable {
			line += "unreachable "
		}
		line += r.Destination.String()
		if r.Via.IsValid() {
			line += " via " + r.Via.String()
		}
		list = append(list, fmt.Sprintf("%s proto %d metric %d", line, r.Protocol, r.Metric))
	}
	if l.Table {
		list = append(list, "nftables table inet "+masqueradeTable)
	}
	return list
}

// Leftovers looks for what agents have put there. It is theirs by what it is, so that none of them has to be known.
func (k *Kernel) Leftovers() (Leftovers, error) {
	all, err := k.list()
	if err != nil {
		return Leftovers{}, err
	}
	l := Leftovers{Routes: slices.DeleteFunc(all, func(r route) bool { return !r.byAgent() })}
	l.Table, err = netfilter.HasTable(k.namespace, netfilter.Inet(masqueradeTable))
	return l, err
}

// byAgent reports whether an agent has made a route: others may use the protocol, too.
func (r route) byAgent() bool {
	return r.ours() && (r.Metric == metric || r.Unreachable && r.Metric == unreachableMetric)
}

// Remove removes leftovers. What has gone by itself is no error; all are tried.
func (k *Kernel) Remove(l Leftovers) error {
	var errs []error
	for _, r := range l.Routes {
		errs = append(errs, k.apply(change{verb: remove, route: r}))
	}
	if l.Table {
		errs = append(errs, netfilter.RemoveTable(k.namespace, netfilter.Inet(masqueradeTable)))
	}
	return errors.Join(errs...)
}
