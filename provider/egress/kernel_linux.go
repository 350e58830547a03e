package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/provider/netfilter"
)

// Kernel is that of one network namespace.
type Kernel struct {
	handle    *netlink.Handle
	namespace netns.NsHandle
	applied   *state              // what the tables of nftables say; nil: not known
	written   time.Time           // when they were written
	cluster   []netip.Prefix      // of those that were written last
	empty     bool                // nothing of ours is there
	flowsDue  bool                // entries of connection tracking are to be removed
	gone      map[netip.Addr]bool // pods whose entries go, although they are in no plan any more
}

// rewriteAfter is how old the tables become: another program may have removed some of their rules.
const rewriteAfter = time.Minute

// state is what a kernel should have.
type state struct {
	// Cluster are destinations to which packets go as ever.
	Cluster []netip.Prefix
	// Pods are sorted.
	Pods []podState
}

type podState struct {
	Pod
	// Owned: this Node owns the address of the Service.
	Owned bool
}

// source is the address with which packets of the pod leave this Node: that of the Service, or still their own on the way to the owner. Packets
// of a pod of another Node do not leave a Node that is not the owner: none is returned.
func (p podState) source() netip.Addr {
	switch {
	case p.Owned:
		return p.Address
	case p.Here:
		return p.IP
	}
	return netip.Addr{}
}

// OpenKernel reaches the kernel of a network namespace; netns.None() is the process's own.
func OpenKernel(namespace netns.NsHandle) (*Kernel, error) {
	handle, err := netlink.NewHandleAt(namespace, unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open the kernel's routes: %w", err)
	}
	return &Kernel{handle: handle, namespace: namespace}, nil
}

// Close gives back the sockets. What was written stays.
func (k *Kernel) Close() { k.handle.Close() }

// apply makes the kernel have a state, and does what it can if something fails. The way to the owner is there before the first packet takes
// it, and goes after the last.
func (k *Kernel) apply(s state) error {
	if len(s.Pods) == 0 {
		if k.empty {
			return nil
		}
		err := k.noteGone(s)
		if err == nil {
			err = errors.Join(k.Remove(), k.endFlows(state{Cluster: k.cluster}))
		}
		k.applied, k.empty = nil, err == nil
		return err
	}
	k.empty = false
	var wanted map[netip.Addr]int
	before, errLook := k.look()
	errs := []error{errLook}
	if errLook == nil {
		var err error
		wanted, err = k.addWays(before, s)
		errs = append(errs, err)
	}
	if err := k.replaceTables(s); err != nil {
		return errors.Join(append(errs, err)...)
	}
	if errLook == nil {
		errs = append(errs, k.removeWays(before, wanted))
	}
	if k.flowsDue {
		err := k.endFlows(s)
		k.flowsDue = err != nil
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// replaceTables writes the tables if they say something else, are gone, or are old.
func (k *Kernel) replaceTables(s state) error {
	there, _, err := k.hasTables()
	if err != nil {
		return err
	}
	if there && k.applied != nil && reflect.DeepEqual(*k.applied, s) && time.Since(k.written) < rewriteAfter {
		return nil
	}
	if k.applied == nil || !slices.Equal(k.applied.Pods, s.Pods) {
		if err := k.noteGone(s); err != nil {
			return err
		}
	}
	k.flowsDue = true // also of what has begun while there was no table
	if err := k.writeTables(s); err != nil {
		k.applied = nil
		return err
	}
	k.applied, k.written, k.cluster = &s, time.Now(), s.Cluster
	return nil
}

// noteGone notes which pods of the tables are in no state any more. The tables know those of an earlier process.
func (k *Kernel) noteGone(s state) error {
	before, err := k.podsInTables()
	if err != nil {
		return err
	}
	if k.gone == nil {
		k.gone = map[netip.Addr]bool{}
	}
	for _, ip := range before {
		k.gone[ip] = true
	}
	for _, p := range s.Pods {
		delete(k.gone, p.IP)
	}
	return nil
}

// Remove removes all that is ours. What has gone by itself is no error. Entries of connection tracking stay, as on a machine that leaves its
// cluster.
func (k *Kernel) Remove() error {
	t, err := k.look()
	if err == nil {
		err = k.removeWays(t, nil)
	}
	return errors.Join(k.removeTables(), err)
}

// Leftovers names what agents have put into the kernel, as ip(8) and nft(8) do.
func (k *Kernel) Leftovers() ([]string, error) {
	var lines []string
	for _, f := range netfilter.Families() {
		there, err := netfilter.HasTable(k.namespace, &nftables.Table{Name: tableName, Family: f.Table})
		if err != nil {
			return nil, err
		}
		if there {
			lines = append(lines, "nftables table "+f.Name+" "+tableName)
		}
	}
	t, err := k.look()
	if err != nil {
		return nil, err
	}
	for _, r := range t.rules {
		lines = append(lines, fmt.Sprintf("rule from %s table %d protocol %d priority %d", r.Src, r.Table, r.Protocol, r.Priority))
	}
	for _, w := range t.ways {
		lines = append(lines, fmt.Sprintf("routes of table %d", w.table))
	}
	return lines, nil
}
