package controlplane

import (
	"context"
	"net"
	"net/netip"
	"time"

	"k8s.io/klog/v2"
)

// lookupTime is how long a DNS answer is used, and lookupTimeout how long a caller waits for one.
const lookupTime, lookupTimeout = time.Minute, 2 * time.Second

// Lookups resolves the names of endpoints, and keeps the last answer while DNS has none.
type Lookups struct {
	// Lookup asks DNS.
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	known  map[string]answer
}

// answer is what a name resolves to.
type answer struct {
	addresses []netip.Addr
	asked     time.Time
}

// NewLookups asks DNS.
func NewLookups() *Lookups {
	return &Lookups{Lookup: net.DefaultResolver.LookupNetIP, known: map[string]answer{}}
}

// Of returns the addresses of hosts, which are addresses or names.
func (l *Lookups) Of(ctx context.Context, now time.Time, hosts ...string) map[netip.Addr]bool {
	found := map[netip.Addr]bool{}
	for _, host := range hosts {
		if address, err := netip.ParseAddr(host); err == nil {
			found[address.Unmap().WithZone("")] = true
			continue
		}
		if host == "" {
			continue
		}
		for _, address := range l.resolve(ctx, now, host) {
			found[address.Unmap()] = true
		}
	}
	return found
}

func (l *Lookups) resolve(ctx context.Context, now time.Time, host string) []netip.Addr {
	known, there := l.known[host]
	if there && now.Sub(known.asked) < lookupTime {
		return known.addresses
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := l.Lookup(ctx, "ip", host)
	if err != nil {
		klog.ErrorS(err, "Cannot resolve the API server's name, using the last answer", "host", host, "addresses", known.addresses)
		addresses = known.addresses
	}
	l.known[host] = answer{addresses: addresses, asked: now}
	return addresses
}
