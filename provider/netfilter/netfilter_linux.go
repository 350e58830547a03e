package netfilter

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Family is what differs between IPv4 and IPv6 in a rule.
type Family struct {
	// Name is nft's: ip or ip6.
	Name string
	// Protocol is NFPROTO_IPV4 or NFPROTO_IPV6.
	Protocol byte
	// Bits is the length of an address.
	Bits int
	// Source and Destination are the offsets of the addresses in a header, in bytes.
	Source, Destination uint32
	// KeyType is that of sets of addresses.
	KeyType nftables.SetDatatype
	// Table is that of tables of this family alone.
	Table nftables.TableFamily
}

// Families are IPv4 and IPv6, in this order.
func Families() []Family {
	return []Family{
		{"ip", unix.NFPROTO_IPV4, 32, 12, 16, nftables.TypeIPAddr, nftables.TableFamilyIPv4},
		{"ip6", unix.NFPROTO_IPV6, 128, 8, 24, nftables.TypeIP6Addr, nftables.TableFamilyIPv6},
	}
}

// FamilyOf is that of an address.
func FamilyOf(address netip.Addr) Family {
	families := Families()
	return families[slices.IndexFunc(families, func(f Family) bool { return f.Bits == address.BitLen() })]
}

// Size is the length of an address in bytes.
func (f Family) Size() uint32 { return uint32(f.Bits / 8) }

// Of are those of the ranges that are of the family.
func (f Family) Of(ranges []netip.Prefix) []netip.Prefix {
	var of []netip.Prefix
	for _, p := range ranges {
		if p.Addr().BitLen() == f.Bits {
			of = append(of, p)
		}
	}
	return of
}

// Packets matches those of the family.
func (f Family) Packets() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{f.Protocol}},
	}
}

// LoadSource and LoadDestination put a packet's address into a register.
func (f Family) LoadSource(register uint32) expr.Any { return f.load(register, f.Source) }

// LoadDestination is documented with LoadSource.
func (f Family) LoadDestination(register uint32) expr.Any { return f.load(register, f.Destination) }

func (f Family) load(register, offset uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.Size()}
}

// transactionBytes is how large a transaction may be. It is sent as one, and the kernel's default, 212,992, is too little for sets of some
// thousand elements. The kernel has as much memory in use as is sent.
const transactionBytes = 64 << 20

// Open reaches nftables of a network namespace; netns.None() is the process's own.
func Open(namespace netns.NsHandle) (*nftables.Conn, error) {
	options := []nftables.ConnOption{nftables.WithSockOptions(func(c *netlink.Conn) error { return c.SetWriteBuffer(transactionBytes) })}
	if namespace.IsOpen() {
		options = append(options, nftables.WithNetNSFd(int(namespace)))
	}
	conn, err := nftables.New(options...)
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return conn, nil
}

// Inet is a table of family inet, for packets of both.
func Inet(name string) *nftables.Table {
	return &nftables.Table{Name: name, Family: nftables.TableFamilyINet}
}

// Replaced returns the table, empty, which takes the place of one of the same name when conn is flushed.
func Replaced(conn *nftables.Conn, table *nftables.Table) *nftables.Table {
	conn.AddTable(table) // so that there is one to delete
	conn.DelTable(table)
	return conn.AddTable(table)
}

// HasTable reports whether there is a table of the name and family. A kernel without nftables has none.
func HasTable(namespace netns.NsHandle, table *nftables.Table) (bool, error) {
	conn, err := Open(namespace)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	tables, err := conn.ListTablesOfFamily(table.Family)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list tables of nftables: %w", err)
	}
	return slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == table.Name }), nil
}

// RemoveTable removes a table, if it is there.
func RemoveTable(namespace netns.NsHandle, table *nftables.Table) error {
	there, err := HasTable(namespace, table)
	if err != nil || !there {
		return err
	}
	conn, err := Open(namespace)
	if err != nil {
		return err
	}
	conn.DelTable(table)
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove table %s of nftables: %w", table.Name, err)
	}
	return nil
}

// messageElements is how many elements go into one message. Its list has a length of 16 bits, which netlink does not
// check: 1638 of IPv4 fit, 1022 of IPv6. Even, so that both ends of a range go together.
const messageElements = 500

// AddSet makes a set of any size.
func AddSet(conn *nftables.Conn, set *nftables.Set, elements []nftables.SetElement) error {
	if err := conn.AddSet(set, nil); err != nil {
		return fmt.Errorf("render set %s of table %s: %w", set.Name, set.Table.Name, err)
	}
	for part := range slices.Chunk(elements, messageElements) {
		if err := conn.SetAddElements(set, part); err != nil {
			return fmt.Errorf("render set %s of table %s: %w", set.Name, set.Table.Name, err)
		}
	}
	return nil
}

// Ranges are elements of an interval set: pairs of a range's first address and the one after its last. They are sorted, and none is in another.
func Ranges(ranges []netip.Prefix) []nftables.SetElement {
	var list []nftables.SetElement
	for _, p := range Disjoint(ranges) {
		list = append(list, nftables.SetElement{Key: p.Masked().Addr().AsSlice()})
		if end := Last(p).Next(); end.IsValid() { // else the range goes on to the last address of all
			list = append(list, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
		}
	}
	return list
}
