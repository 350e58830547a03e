package conformance

import (
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// Cloud is a provider, and the means to script the cloud behind it. A hook that is nil is something that the cloud
// cannot do; rules that need it are skipped. Hooks are called while the controllers run: they must be safe for that.
type Cloud struct {
	Provider cloudprovider.Interface

	// Add makes a machine, before or after its Node is there. It may be nil where the provider adopts every Node.
	Add func(Machine) error
	// Remove makes the machine go for good.
	Remove func(Machine) error
	// Rename gives the machine another name in the cloud. Its Node keeps the old one.
	Rename func(m Machine, name string) error
	// Stop and Start switch the machine off and on.
	Stop, Start func(Machine) error
	// Faults are switched on with true and off with false.
	Faults map[Fault]func(on bool)
}

// Machine is what a rule asks for: a machine whose kubelet will register a Node of this name.
type Machine struct {
	Name string
	// UUID is what SMBIOS shows, and with it Node.status.nodeInfo.systemUUID.
	UUID string
	// Addresses are one of IPv4 and one of IPv6, both internal.
	Addresses []corev1.NodeAddress
}

// Fault is a way in which a cloud does not answer as it should.
type Fault string

// The faults that clouds have shown, each of which has deleted Nodes of running machines.
const (
	Forbidden    Fault = "forbidden"     // credentials expired or lost a permission: 401, 403
	WrongProject Fault = "wrong-project" // project, tenant or region are wrong, and nothing of ours is in them
	Throttled    Fault = "throttled"     // too many requests: 429
	Unavailable  Fault = "unavailable"   // 500, or no connection
	Slow         Fault = "slow"          // no answer as long as the fault is on
)

// faults lists them in the order of the rules.
func faults() []Fault { return []Fault{Forbidden, WrongProject, Throttled, Unavailable, Slow} }

// NotOffered is the error of a rule that the provider is not asked about.
type NotOffered struct {
	What string // the role, hook or fault that is missing
}

// Error names what is missing.
func (e NotOffered) Error() string { return "not offered: " + e.What }
