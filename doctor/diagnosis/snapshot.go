// Package diagnosis finds what is wrong with a cluster in external cloud mode, its causes before their consequences.
//
// Start at [Gather], which looks once and makes a [Snapshot], and at [Diagnose], which judges one: of a cluster, or of
// a file. detectors.go is the list of what is looked for, chains.go says what stands under what, text.go shows it.
//
// Reads: Nodes, Leases, pods and logs of cloud-controller-managers, their workloads, Events, Services, AddressPools,
// webhooks, certificate requests, and what the manager may do. What it may not read stands in [Snapshot.NotSeen], and is never
// taken for what is not there. Secrets are never read; what looks like one in a log or an argument is taken out.
// Writes: nothing.
package diagnosis

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// The document's version and kind. A field that is added keeps the version; one that changes its meaning does not.
const (
	APIVersion = v1alpha1.GroupName + "/doctor-v1"
	Kind       = "Snapshot"
)

// Snapshot is what was seen of a cluster at one moment. As JSON it can be sent to somebody, and diagnosed there.
type Snapshot struct {
	metav1.TypeMeta `json:",inline"`
	// Taken is when it was gathered.
	Taken time.Time `json:"taken"`
	// Version is the API server's, as v1.36.3.
	Version string `json:"version,omitempty"`
	// Provider and Mode are by the cluster's record. Empty: ccmadm did not make this cluster.
	Provider string `json:"provider,omitempty"`
	Mode     string `json:"mode,omitempty"`
	// Image is the manager's by the record; OwnArguments says that the record adds some.
	Image        string `json:"image,omitempty"`
	OwnArguments bool   `json:"ownArguments,omitempty"`
	// RecordMisread and JournalMisread say why a command would not go by these; nil where it would, or there is none.
	RecordMisread  *Misread `json:"recordMisread,omitempty"`
	JournalMisread *Misread `json:"journalMisread,omitempty"`
	// Inventory says whether the list of machines is confirmed, by the provider onprem. Empty: there is none.
	Inventory string `json:"inventory,omitempty"`
	// Kubeadm is the ClusterConfiguration that kubeadm keeps in the cluster.
	Kubeadm string `json:"kubeadm,omitempty"`

	Nodes []corev1.Node `json:"nodes,omitempty"`
	// Heartbeats are the Leases of kubelets, Leases all others of kube-system, and the manager's where it is elsewhere.
	Heartbeats []coordinationv1.Lease `json:"heartbeats,omitempty"`
	Leases     []coordinationv1.Lease `json:"leases,omitempty"`
	// LeaseName is the manager's; Renewed is when a renewal was seen, where its clock is doubtful.
	LeaseName string     `json:"leaseName,omitempty"`
	Renewed   *time.Time `json:"renewed,omitempty"`
	// Flags are the --cloud-provider of kubelets that told it, by Node.
	Flags map[string]string `json:"flags,omitempty"`

	// Deployments, DaemonSets and Pods are those of cloud-controller-managers, Masters the control plane's static pods.
	Deployments []appsv1.Deployment `json:"deployments,omitempty"`
	DaemonSets  []appsv1.DaemonSet  `json:"daemonSets,omitempty"`
	Pods        []corev1.Pod        `json:"pods,omitempty"`
	Masters     []corev1.Pod        `json:"masters,omitempty"`
	// DNS is how many pods of the cluster's DNS are ready.
	DNS DNS `json:"dns"`
	// Logs are the last lines of managers' pods, by name; Reviews what the API server says they may do.
	Logs    map[string][]string `json:"logs,omitempty"`
	Reviews []nodes.Review      `json:"reviews,omitempty"`
	// Events are warnings of kube-system, and those by which Nodes were deleted.
	Events []corev1.Event `json:"events,omitempty"`
	// Services are of type LoadBalancer, or hold its finalizer.
	Services []corev1.Service `json:"services,omitempty"`
	// Pools are the AddressPools of the provider onprem.
	Pools []Pool `json:"pools,omitempty"`
	// Webhooks are those that fail closed and are served in the cluster.
	Webhooks []Webhook `json:"webhooks,omitempty"`
	// Requests are for kubelets' serving certificates, and have no answer.
	Requests []certificatesv1.CertificateSigningRequest `json:"requests,omitempty"`

	// Host is the machine on which the doctor ran; nil where it was not asked to look at it.
	Host *Host `json:"host,omitempty"`

	// NotSeen is what could not be asked for.
	NotSeen []NotSeen `json:"notSeen,omitempty"`
}

// DNS are pods of the cluster's own name server.
type DNS struct {
	Pods  int `json:"pods"`
	Ready int `json:"ready"`
}

// NotSeen is something that could not be asked for. It is an error that tells apierrors what the API server said.
type NotSeen struct {
	What    string              `json:"what"`
	Reason  metav1.StatusReason `json:"reason,omitempty"`
	Message string              `json:"message"`
}

// Error is the API server's message.
func (n *NotSeen) Error() string { return n.Message }

// Status has the reason for apierrors.IsForbidden and the like.
func (n *NotSeen) Status() metav1.Status { return metav1.Status{Reason: n.Reason, Message: n.Message} }

// Write writes the snapshot as JSON.
func (s *Snapshot) Write(out io.Writer) error {
	if err := json.NewEncoder(out).Encode(s); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}

// maxSnapshot is more than 5,000 Nodes take, in bytes.
const maxSnapshot = 256 << 20

// Read reads what Write wrote. The error says when it is something else.
func Read(name string, in io.Reader) (*Snapshot, error) {
	s := &Snapshot{}
	if err := json.NewDecoder(io.LimitReader(in, maxSnapshot)).Decode(s); err != nil {
		return nil, fmt.Errorf("read snapshot %s: %w", name, err)
	}
	if s.Kind != Kind || s.APIVersion != APIVersion {
		return nil, fmt.Errorf("read snapshot %s: want apiVersion %s and kind %s, got %q and %q",
			name, APIVersion, Kind, finding.Clean(s.APIVersion), finding.Clean(s.Kind))
	}
	if s.Taken.IsZero() {
		return nil, fmt.Errorf("read snapshot %s: %w", name, errors.New("it does not say when it was taken"))
	}
	return s, nil
}

// notSeen returns what is known of why something was not seen; nil where it was.
func (s *Snapshot) notSeen(what string) *NotSeen {
	i := slices.IndexFunc(s.NotSeen, func(n NotSeen) bool {
		return n.What == what || n.What == partCluster && !strings.HasPrefix(what, hostPart)
	})
	if i < 0 {
		return nil
	}
	return &s.NotSeen[i]
}

// lease returns the one that is no kubelet's with the name, or nil.
func (s *Snapshot) lease(namespace, name string) *coordinationv1.Lease {
	i := slices.IndexFunc(s.Leases, func(l coordinationv1.Lease) bool {
		return l.Namespace == namespace && l.Name == name
	})
	if i < 0 {
		return nil
	}
	return &s.Leases[i]
}
