package diagnosis

import (
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// detector looks for what is wrong in one place of a snapshot.
type detector struct {
	name string
	// needs are the parts of the snapshot without which it does not look.
	needs []string
	find  func(*view) []finding.Finding
	// explains are what follows from its findings: they stand below.
	explains []finding.ID
	// narrows leaves of them what one finding explains. Nil: all.
	narrows func(*view, *finding.Finding, []finding.ID) []finding.ID
	// explainsAll says that each of its findings does; else only those about the manager itself (managerWide).
	explainsAll bool
}

// Cause is a finding with all objects that it is about, and what follows from it.
type Cause struct {
	finding.Finding
	// Objects are all that have it; Finding.Object is the first.
	Objects []string `json:"objects,omitempty"`
	// Consequences are gone when it is.
	Consequences []Cause `json:"consequences,omitempty"`

	explains []finding.ID
}

// Diagnosis is what was found, and what could not be looked for.
type Diagnosis struct {
	// Causes are in the order in which to deal with them: errors first.
	Causes []Cause `json:"causes"`
	// Nodes is how far each has come.
	Nodes []nodes.Status `json:"nodes"`
	// NotSeen is what could not be asked for; NotLooked which detectors therefore did not look, and what each lacked.
	NotSeen   []NotSeen         `json:"notSeen,omitempty"`
	NotLooked map[string]string `json:"notLooked,omitempty"`
	// Probed is how much pods asked from Nodes, and what they did not, a line each. Empty where none was to ask.
	Probed []string `json:"probed,omitempty"`
	// Summary is a line about the cluster.
	Summary string `json:"summary"`

	picture picture
	// noKubelet says that none of them answered, though one may ask.
	noKubelet bool
	// unprobed says that not all was asked from Nodes that was to be.
	unprobed bool
	// blindProbe says that something could not be asked from Nodes.
	blindProbe bool
}

// Extra is a look at a snapshot from elsewhere. Its findings explain nothing.
type Extra func(*Snapshot) []finding.Finding
