package config

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// InventoryKind is the kind of the document that lists a site's machines.
const InventoryKind = "Inventory"

// Inventory lists the machines of one site.
type Inventory struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata names the site and orders the documents.
	Metadata InventoryMetadata `json:"metadata"`
	// Defaults apply to machines that do not set these fields.
	Defaults Place `json:"defaults,omitzero"`
	// Policy for Nodes without a machine, and for the deletion of Nodes.
	Policy InventoryPolicy `json:"policy,omitzero"`
	// Machines of the site. The order has no meaning.
	Machines []Machine `json:"machines"`
}

// InventoryMetadata names and orders inventories.
type InventoryMetadata struct {
	// Site is the first part of every provider ID. Provider IDs are immutable.
	Site string `json:"site"`
	// Serial must never decrease; always 0 disables this check.
	Serial int64 `json:"serial,omitempty"`
}

// Place is where a machine stands and what it is.
type Place struct {
	// Region becomes the label topology.kubernetes.io/region.
	Region string `json:"region,omitempty"`
	// Zone becomes the label topology.kubernetes.io/zone.
	Zone string `json:"zone,omitempty"`
	// InstanceType becomes the label node.kubernetes.io/instance-type.
	InstanceType string `json:"instanceType,omitempty"`
}

// UnknownNodes is the policy for a Node that matches none of the machines.
type UnknownNodes string

// AdoptUnknown initializes such a Node from its own properties. HoldUnknown leaves it tainted.
const (
	AdoptUnknown UnknownNodes = "adopt"
	HoldUnknown  UnknownNodes = "hold"
)

// Deletion is how an inventory marks a machine as gone.
type Deletion string

// DeletionNever deletes nothing. DeletionTombstone deletes Nodes of machines that are listed as decommissioned.
// DeletionAbsence also deletes those whose machine is no longer listed.
const (
	DeletionNever     Deletion = "never"
	DeletionTombstone Deletion = "tombstone"
	DeletionAbsence   Deletion = "absence"
)

// InventoryPolicy is that of an Inventory.
type InventoryPolicy struct {
	// UnknownNodes is adopt or hold. Default: adopt.
	UnknownNodes UnknownNodes `json:"unknownNodes,omitempty"`
	// Deletion is never, tombstone or absence. Default: tombstone.
	Deletion Deletion `json:"deletion,omitempty"`
	// Absence is for how long a machine must be missing.
	Absence AbsencePolicy `json:"absence,omitzero"`
	// DeletionBudget limits how many Nodes go, and how fast.
	DeletionBudget DeletionBudget `json:"deletionBudget,omitzero"`
}

// AbsencePolicy is for how long a machine must be missing before it is gone.
type AbsencePolicy struct {
	// MinSnapshots is in how many readings in a row. Default: 3.
	MinSnapshots int `json:"minSnapshots,omitempty"`
	// MinDuration is for how long. Default: 15m.
	MinDuration metav1.Duration `json:"minDuration,omitzero"`
}

// DeletionBudget limits deletions.
type DeletionBudget struct {
	// Max Nodes may go in any period of Per. Default: 1 in 10m.
	Max int `json:"max,omitempty"`
	// Per is that period.
	Per metav1.Duration `json:"per,omitzero"`
	// MaxPercent of all Nodes may look gone at once, but always one. With more,
	// none goes: then it is the inventory that is wrong. Default: 10.
	MaxPercent int `json:"maxPercent,omitempty"`
}

// MachineState is whether a machine is in use.
type MachineState string

// MachineMaintenance keeps new pods off the machine, by a taint. MachineDecommissioned is a tombstone: the machine will
// not come back, and a Node that joins as it is not initialized.
const (
	MachineActive         MachineState = "active"
	MachineMaintenance    MachineState = "maintenance"
	MachineDecommissioned MachineState = "decommissioned"
)

// Machine is one machine of the site.
type Machine struct {
	// ID becomes the provider ID: it is immutable, and never used again.
	ID string `json:"id"`
	// State is active, maintenance or decommissioned. Default: active.
	State MachineState `json:"state,omitempty"`
	// Force allows deleting the Node of a decommissioned control-plane machine.
	Force bool `json:"force,omitempty"`
	// Match identifies the machine.
	Match MachineMatch `json:"match,omitzero"`
	// Hostname is the name of its Node, and also identifies the machine.
	Hostname string `json:"hostname,omitempty"`
	// Addresses of the Node, which take precedence over those that the kubelet reports.
	Addresses []corev1.NodeAddress `json:"addresses,omitempty"`

	Place `json:",inline"`
	// Rack becomes the label ccmadm.dev/rack.
	Rack string `json:"rack,omitempty"`
	// Labels are copied to the Node and kept in sync. A label that another client has set is left alone.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are copied to the Node and kept in sync, except new ones with the effect NoExecute, which evicts pods: those are
	// added only when the Node is initialized. One that is removed by hand is added again.
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Power is what is known about it.
	Power Power `json:"power,omitzero"`
	// Protected keeps the Node, whatever else is said.
	Protected bool `json:"protected,omitempty"`
}

// MachineMatch is what a machine can be recognized by, beside its id and its hostname.
type MachineMatch struct {
	// SystemUUID is that of DMI, as a Node shows it in status.nodeInfo.systemUUID.
	SystemUUID string `json:"systemUUID,omitempty"`
	// Serial is the system's serial number in DMI.
	Serial string `json:"serial,omitempty"`
	// MACs are addresses of its network cards.
	MACs []string `json:"macs,omitempty"`
	// Hostnames are further names by which its Node may be called.
	Hostnames []string `json:"hostnames,omitempty"`
	// ProviderIDs are those that its Node had from another provider.
	ProviderIDs []string `json:"providerIDs,omitempty"`
}

// PowerState is what a person or a management controller said about the power.
type PowerState string

// PowerOff taints the Node as shut down while it is NotReady.
const (
	PowerOn      PowerState = "on"
	PowerOff     PowerState = "off"
	PowerUnknown PowerState = "unknown"
)

// AllTaints are those of its Node: the listed ones, and that of maintenance.
func (m *Machine) AllTaints() []corev1.Taint {
	if m.State != MachineMaintenance {
		return m.Taints
	}
	return append(slices.Clip(m.Taints), corev1.Taint{Key: v1alpha1.MaintenanceTaint, Effect: corev1.TaintEffectNoSchedule})
}

// Power of a machine.
type Power struct {
	// State is on, off or unknown. Default: unknown.
	State PowerState `json:"state,omitempty"`
	// BMC is kept for those who look after the machine; nothing here connects to it.
	BMC *BMC `json:"bmc,omitempty"`
}

// BMC is a management controller.
type BMC struct {
	// Redfish is its address.
	Redfish string `json:"redfish,omitempty"`
	// SecretRef names a Secret with its password.
	SecretRef string `json:"secretRef,omitempty"`
}

// Default fills what the site left open.
func (i *Inventory) Default() {
	p := &i.Policy
	p.UnknownNodes = cmp.Or(p.UnknownNodes, AdoptUnknown)
	p.Deletion = cmp.Or(p.Deletion, DeletionTombstone)
	p.Absence.MinSnapshots = cmp.Or(p.Absence.MinSnapshots, 3)
	p.Absence.MinDuration = cmp.Or(p.Absence.MinDuration, metav1.Duration{Duration: 15 * time.Minute})
	p.DeletionBudget.Max = cmp.Or(p.DeletionBudget.Max, 1)
	p.DeletionBudget.Per = cmp.Or(p.DeletionBudget.Per, metav1.Duration{Duration: 10 * time.Minute})
	p.DeletionBudget.MaxPercent = cmp.Or(p.DeletionBudget.MaxPercent, 10)
	for n := range i.Machines {
		m := &i.Machines[n]
		m.State = cmp.Or(m.State, MachineActive)
		m.Power.State = cmp.Or(m.Power.State, PowerUnknown)
		m.Region = cmp.Or(m.Region, i.Defaults.Region)
		m.Zone = cmp.Or(m.Zone, i.Defaults.Zone)
		m.InstanceType = cmp.Or(m.InstanceType, i.Defaults.InstanceType)
	}
}

// DecodeInventory reads an inventory strictly, sets its defaults and validates it; name leads the errors and may be
// empty.
func DecodeInventory(name string, data []byte) (*Inventory, error) {
	i := &Inventory{}
	err := Text{Name: name, Data: data}.Decode(InventoryKind, i, func() field.ErrorList {
		i.Default()
		return i.Validate()
	})
	if err != nil {
		return nil, err
	}
	return i, nil
}
