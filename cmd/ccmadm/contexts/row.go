package contexts

import "time"

// Row is what is known of one cluster.
type Row struct {
	// Context is the name in the kubeconfig, Server the API server's address there.
	Context string `json:"context"`
	Server  string `json:"server,omitempty"`
	// Unasked says why the cluster cannot be asked: nothing is known of it, or nothing of its Nodes.
	Unasked *Unasked `json:"cannotBeAsked,omitempty"`
	// Versions are those of Kubernetes that API servers have: during an upgrade there are two.
	Versions []string `json:"versions,omitempty"`
	// Record is nil where ccmadm has none in the cluster, and where it is among NotSeen.
	Record *Record `json:"record,omitempty"`
	// Leader is the cloud-controller-manager that leads. Empty where none leads, and where it is among NotSeen.
	Leader string `json:"leader,omitempty"`
	// Nodes are nil where they could not be read.
	Nodes *Nodes `json:"nodes,omitempty"`
	// Certificate is the one that ends first among those that the connection shows. Nil where there is none, as without TLS.
	Certificate *Certificate `json:"certificate,omitempty"`
	// Findings are the doctor's. Nil where it was not asked, and where they are among NotSeen.
	Findings *Findings `json:"findings,omitempty"`
	// Wrong is why the cluster is not ready, as `ccmadm status` says it for this cluster alone.
	Wrong []string `json:"notReady,omitempty"`
	// NotSeen is what could not be read, and why. It is never taken for what does not exist.
	NotSeen map[string]string `json:"notSeen,omitempty"`
	// Seconds is how long the cluster was asked.
	Seconds float64 `json:"seconds"`
}

// Names of what may be among [Row.NotSeen].
const (
	partVersion  = "version"
	partRecord   = "record"
	partLeader   = "leader"
	partFindings = "findings"
)

// Unasked is why a cluster cannot be asked.
type Unasked struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// Next is what to do about it.
	Next string `json:"next,omitempty"`
}

// Record is what ccmadm has written down of a cluster.
type Record struct {
	// WrittenBy is the version of ccmadm that has written it. Empty in records of before it was noted.
	WrittenBy string `json:"writtenBy,omitempty"`
	Provider  string `json:"provider,omitempty"`
	Mode      string `json:"mode,omitempty"`
}

// Nodes are counts.
type Nodes struct {
	Total int `json:"total"`
	// Ready are in state Ready; NotInitialized have not reached state Initialized.
	Ready          int `json:"ready"`
	NotInitialized int `json:"notInitialized"`
	// Kubelets are their versions.
	Kubelets []string `json:"kubelets,omitempty"`
}

// Certificate is one, and when it ends.
type Certificate struct {
	Name string    `json:"name"`
	Ends time.Time `json:"ends"`
}

// Findings are how many the doctor has, and how much it could not read.
type Findings struct {
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	NotSeen  int `json:"notSeen"`
}

// notSeen keeps why a part could not be read.
func (r *Row) notSeen(part string, err error) {
	if r.NotSeen == nil {
		r.NotSeen = map[string]string{}
	}
	reason, text := classify(err)
	r.NotSeen[part] = string(reason) + ": " + text
}

// class is one of three of the page's colours: it is well, it is not ready, it cannot be asked.
func (r *Row) class() string {
	switch {
	case r.Unasked != nil:
		return "bad"
	case len(r.Wrong) > 0:
		return "waits"
	}
	return "ok"
}
