package kernel

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Names of tables that are ours alone, of family inet: PodTable masquerades pods, ProxyTable leads connections to
// addresses of level Proxy to the agent.
const (
	PodTable   = "ccmadm-pods"
	ProxyTable = "ccmadm-proxy"
)

// Replace writes a table anew, as fill renders it, in one transaction.
func Replace(namespace netns.NsHandle, name string, fill func(*nftables.Conn, *nftables.Table) error) error {
	conn, err := Nftables(namespace)
	if err != nil {
		return err
	}
	table := tableOf(name)
	conn.AddTable(table) // so that there is one to delete
	conn.DelTable(table)
	conn.AddTable(table)
	if err := fill(conn, table); err != nil {
		return fmt.Errorf("render table %s of nftables: %w", name, err)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("write table %s of nftables: %w", name, err)
	}
	return nil
}

// Nftables reaches the tables of the network namespace. None: where the process is.
func Nftables(namespace netns.NsHandle) (*nftables.Conn, error) {
	var options []nftables.ConnOption
	if namespace.IsOpen() {
		options = append(options, nftables.WithNetNSFd(int(namespace)))
	}
	conn, err := nftables.New(options...)
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return conn, nil
}

func tableOf(name string) *nftables.Table {
	return &nftables.Table{Name: name, Family: nftables.TableFamilyINet}
}

// Tables are the names of ours that are there, in order. A kernel without nftables has none.
func Tables(namespace netns.NsHandle) ([]string, error) {
	conn, err := Nftables(namespace)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list tables of nftables: %w", err)
	}
	var names []string
	for _, t := range tables {
		if t.Name == PodTable || t.Name == ProxyTable {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Remove removes a table of ours. One that has gone already is no error.
func Remove(namespace netns.NsHandle, name string) error {
	conn, err := Nftables(namespace)
	if err != nil {
		return err
	}
	conn.DelTable(tableOf(name))
	if err := conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove table %s of nftables: %w", name, err)
	}
	return nil
}

// messageElements is how many elements go into one message. Its list has a length of 16 bits, which netlink does not
// check: 1638 of IPv4 fit, 1022 of IPv6. Even, so that both ends of a range go together.
const messageElements = 500

// AddSet makes a set of any size.
func AddSet(conn *nftables.Conn, set *nftables.Set, elements []nftables.SetElement) error {
	err := conn.AddSet(set, nil)
	for part := range slices.Chunk(elements, messageElements) {
		if err == nil {
			err = conn.SetAddElements(set, part)
		}
	}
	if err != nil {
		return fmt.Errorf("render set %s: %w", set.Name, err)
	}
	return nil
}
