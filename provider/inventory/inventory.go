// Package inventory is what a site says about its machines: sources of that document, the last good one of them, which
// machine a Node is, and whether a machine may count as gone.
//
// Start at [Decode] for a document (its types are in api/v1alpha1), at [Inventory.Match] for a Node, at [Watcher] for a
// document that changes, and at [Guard] for what must hold before a Node is deleted.
//
// Reads: an Inventory document from a file, a ConfigMap or a server, and what a Node shows of its machine.
// Writes: the last good copy, to the ConfigMap that it is told.
// Running it twice: the same document and Node give the same answer.
// It will not: guess. Two machines for one Node are an error that names both.
package inventory

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/ccmadm/ccmadm/api/config"
)

// Inventory is a valid document, and finds its machines. It never changes.
type Inventory struct {
	*config.Inventory

	byKey map[string]*config.Machine // see Machine.Keys
	byIP  map[string]*config.Machine
}

// newInventory indexes a valid document.
func newInventory(document *config.Inventory) *Inventory {
	i := &Inventory{Inventory: document, byKey: map[string]*config.Machine{}, byIP: map[string]*config.Machine{}}
	for n := range i.Machines {
		m := &i.Machines[n]
		for _, key := range m.Keys(field.NewPath("machines")) {
			i.byKey[key.String()] = m
		}
		for _, ip := range m.IPs() {
			i.byIP[ip] = m
		}
	}
	return i
}

// ByID returns the machine, or nil.
func (i *Inventory) ByID(id string) *config.Machine { return i.byKey["id="+id] }

// ByIP returns the machine in use that has the address, or nil.
func (i *Inventory) ByIP(address string) *config.Machine {
	ip := netutils.ParseIPSloppy(address)
	if ip == nil {
		return nil
	}
	return i.byIP[ip.String()]
}
