// Package inventory is what a site says about its machines: types, decoder,
// which machine a Node is, and whether a machine may count as gone.
//
// Start at [Read] for a document, at [Inventory.Match] for a Node, and at [Guard]
// for what must hold before a Node is deleted.
//
// Reads: an Inventory document, and what a Node shows of its machine.
// Writes: nothing. Store and its sources, which follow a document while it
// changes, keep the last good copy where they are told to.
// Running it twice: the same document and Node give the same answer.
// It will not: guess. Two machines for one Node are an error that names both.
package inventory

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The type of the document.
const (
	APIVersion = "ccmadm.dev/v1alpha1"
	Kind       = "Inventory"
)

// Inventory lists the machines of one site.
type Inventory struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata names the site and orders the documents.
	Metadata Metadata `json:"metadata"`
	// Defaults are for machines that do not say.
	Defaults Place `json:"defaults,omitzero"`
	// Policy says what happens to Nodes without a machine, and when one may go.
	Policy Policy `json:"policy,omitzero"`
	// Machines are those of the site. The order means nothing.
	Machines []Machine `json:"machines"`

	byKey map[string]*Machine // see Machine.keys
}

// Metadata of an Inventory.
type Metadata struct {
	// Site is the first part of every provider ID. Provider IDs are immutable.
	Site string `json:"site"`
	// Serial must not go backwards; 0 throughout means that nobody counts.
	Serial int64 `json:"serial,omitempty"`
}

// Place is where a machine stands and what it is.
type Place struct {
	Region       string `json:"region,omitempty"`
	Zone         string `json:"zone,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
}

// UnknownNodes says what happens to a Node that is none of the machines.
type UnknownNodes string

// Adopt initializes such a Node from what it shows itself. Hold leaves it tainted.
const (
	Adopt UnknownNodes = "adopt"
	Hold  UnknownNodes = "hold"
)

// Deletion says how an inventory tells that a machine is gone.
type Deletion string

// Never deletes nothing. Tombstone deletes Nodes of machines that are listed as
// decommissioned. Absence also deletes those whose machine is no longer listed.
const (
	Never     Deletion = "never"
	Tombstone Deletion = "tombstone"
	Absence   Deletion = "absence"
)

// Policy of an Inventory.
type Policy struct {
	// UnknownNodes is adopt or hold. Default: adopt.
	UnknownNodes UnknownNodes `json:"unknownNodes,omitempty"`
	// Deletion is never, tombstone or absence. Default: tombstone.
	Deletion Deletion `json:"deletion,omitempty"`
	// Absence is for how long a machine must be missing.
	Absence AbsencePolicy `json:"absence,omitzero"`
	// DeletionBudget limits how many Nodes go, and how fast.
	DeletionBudget Budget `json:"deletionBudget,omitzero"`
}

// AbsencePolicy is for how long a machine must be missing before it is gone.
type AbsencePolicy struct {
	// MinSnapshots is in how many readings in a row. Default: 3.
	MinSnapshots int `json:"minSnapshots,omitempty"`
	// MinDuration is for how long. Default: 15m.
	MinDuration metav1.Duration `json:"minDuration,omitzero"`
}

// Budget limits deletions.
type Budget struct {
	// Max Nodes may go in any period of Per. Default: 1 in 10m.
	Max int             `json:"max,omitempty"`
	Per metav1.Duration `json:"per,omitzero"`
	// MaxPercent of all Nodes may look gone at once, but always one. With more,
	// none goes: then it is the inventory that is wrong. Default: 10.
	MaxPercent int `json:"maxPercent,omitempty"`
}

// State is whether a machine is in use.
type State string

// Decommissioned is a tombstone: the machine will not come back.
const (
	Active         State = "active"
	Maintenance    State = "maintenance"
	Decommissioned State = "decommissioned"
)

// Machine is one machine of the site.
type Machine struct {
	// ID becomes the provider ID: it is immutable, and never used again.
	ID string `json:"id"`
	// State is active, maintenance or decommissioned. Default: active.
	State State `json:"state,omitempty"`
	// Force lets a decommissioned control-plane machine lose its Node.
	Force bool `json:"force,omitempty"`
	// Match says how to recognize the machine.
	Match Identity `json:"match,omitzero"`
	// Hostname is its Node's name, and recognizes it as well.
	Hostname string `json:"hostname,omitempty"`
	// Addresses become those of the Node, before those that the kubelet says.
	Addresses []corev1.NodeAddress `json:"addresses,omitempty"`

	Place `json:",inline"`
	// Rack becomes the label ccmadm.dev/rack.
	Rack string `json:"rack,omitempty"`
	// Labels of the Node follow. A label that somebody else set stays theirs.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are added once, when the Node is new.
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Power is what is known about it.
	Power Power `json:"power,omitzero"`
	// Protected keeps the Node, whatever else is said.
	Protected bool `json:"protected,omitempty"`
}

// Identity is what a machine can be recognized by.
type Identity struct {
	SystemUUID  string   `json:"systemUUID,omitempty"`
	Serial      string   `json:"serial,omitempty"`
	MACs        []string `json:"macs,omitempty"`
	Hostnames   []string `json:"hostnames,omitempty"`
	ProviderIDs []string `json:"providerIDs,omitempty"`
}

// PowerState is what a person or a management controller said about the power.
type PowerState string

// Off taints the Node as shut down while it is NotReady.
const (
	On      PowerState = "on"
	Off     PowerState = "off"
	Unknown PowerState = "unknown"
)

// Power of a machine.
type Power struct {
	// State is on, off or unknown. Default: unknown.
	State PowerState `json:"state,omitempty"`
	// BMC is kept for those who look after the machine; nothing here connects to it.
	BMC *BMC `json:"bmc,omitempty"`
}

// BMC is a management controller.
type BMC struct {
	Redfish   string `json:"redfish,omitempty"`
	SecretRef string `json:"secretRef,omitempty"`
}

// ByID returns the machine, or nil.
func (i *Inventory) ByID(id string) *Machine { return i.byKey["id="+id] }
