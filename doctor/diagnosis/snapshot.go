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
	"context"
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/agreement"
	"github.com/ccmadm/ccmadm/doctor/callouts"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/probe"
	"github.com/ccmadm/ccmadm/doctor/requests"
)

// The document's version and kind. A field that is added keeps the version; one that changes its meaning does not.
const (
	APIVersion = v1alpha1.GroupName + "/doctor-v1"
	Kind       = "Snapshot"
)

// Snapshot is what was seen of a cluster at one moment. As JSON it can be diagnosed elsewhere.
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
	// Unfinished is the run of the journal that stopped halfway; nil: there is none, or it is under way.
	Unfinished *Unfinished `json:"unfinished,omitempty"`
	// Inventory reports whether the list of machines is confirmed, by the provider onprem. Empty: there is none.
	Inventory string `json:"inventory,omitempty"`
	// Kubeadm is the ClusterConfiguration that kubeadm keeps in the cluster.
	Kubeadm string `json:"kubeadm,omitempty"`
	// ClusterDNS is the address that kubelets tell pods to ask, by the KubeletConfiguration in the cluster.
	ClusterDNS string `json:"clusterDNS,omitempty"`
	// Settings is what several places of the cluster state, and that has to be the same.
	Settings agreement.Settings `json:"settings,omitzero"`
	// Configurations are ConfigMaps that kubeadm made and that cannot be used.
	Configurations []Configuration `json:"configurations,omitempty"`

	Nodes []corev1.Node `json:"nodes,omitempty"`
	// Heartbeats are the Leases of kubelets, Leases all others of kube-system, and the manager's where it is elsewhere.
	Heartbeats []coordinationv1.Lease `json:"heartbeats,omitempty"`
	Leases     []coordinationv1.Lease `json:"leases,omitempty"`
	// LeaseName is the manager's; Renewed is when a renewal was seen, where its clock is doubtful.
	LeaseName string     `json:"leaseName,omitempty"`
	Renewed   *time.Time `json:"renewed,omitempty"`
	// Answers are what kubelets say.
	nodes.Answers

	// Deployments, DaemonSets and Pods are those of cloud-controller-managers, Masters the control plane's static pods.
	Deployments []appsv1.Deployment `json:"deployments,omitempty"`
	DaemonSets  []appsv1.DaemonSet  `json:"daemonSets,omitempty"`
	Pods        []corev1.Pod        `json:"pods,omitempty"`
	Masters     []corev1.Pod        `json:"masters,omitempty"`
	// Networks are the DaemonSets of any namespace that bring CNI plugins.
	Networks []nodes.PodNetwork `json:"networks,omitempty"`
	// Components is what else runs in kube-system. Nil: a snapshot of before it was looked at.
	Components *components.Seen `json:"components,omitempty"`
	// DNS is how many pods of the cluster's DNS are ready.
	DNS DNS `json:"dns"`
	// Logs are the last lines of managers' pods, by name; Reviews what the API server says they may do.
	Logs    map[string][]string `json:"logs,omitempty"`
	Reviews []nodes.Review      `json:"reviews,omitempty"`
	// Events are warnings of kube-system and of managers' namespaces, those by which Nodes were deleted, and those of pods without a sandbox and of Services that wait.
	Events []corev1.Event `json:"events,omitempty"`
	// Services are of type LoadBalancer, or hold its finalizer.
	Services []corev1.Service `json:"services,omitempty"`
	// ExternalIPs are Services that have some, as Service/NAMESPACE/NAME.
	ExternalIPs []string `json:"externalIPs,omitempty"`
	// ProxyMode is what kube-proxy's configuration says, as ipvs; empty: it does not say, or there is none.
	ProxyMode string `json:"proxyMode,omitempty"`
	// Pools are the AddressPools of the provider onprem.
	Pools []Pool `json:"pools,omitempty"`
	// NoPools says that the API server does not know AddressPools.
	NoPools bool `json:"noPools,omitempty"`
	// Webhooks are those that fail closed and are served in the cluster.
	Webhooks []Webhook `json:"webhooks,omitempty"`
	// Callouts are all webhooks that the API server asks, and what came of asking them.
	Callouts []callouts.Callout `json:"callouts,omitempty"`
	// Requests are for kubelets' serving certificates, and have no answer.
	Requests []certificatesv1.CertificateSigningRequest `json:"requests,omitempty"`

	// Undone are requests that wait for kube-controller-manager to approve or to sign them.
	Undone []certificatesv1.CertificateSigningRequest `json:"undone,omitempty"`

	// Served is what the API server would not serve. Nil: it was not asked, since kubeadm did not make the cluster.
	Served *requests.Seen `json:"served,omitempty"`

	// Host is the machine on which the doctor ran; nil where it was not asked to look at it.
	Host *Host `json:"host,omitempty"`

	// Probe is what pods asked from Nodes; nil where none was to ask.
	Probe *probe.Facts `json:"probe,omitempty"`

	// NotSeen is what could not be asked for.
	NotSeen []NotSeen `json:"notSeen,omitempty"`
}

// Configuration is a ConfigMap that something reads when it starts, and why it cannot.
type Configuration struct {
	Object  string `json:"object"`
	Problem string `json:"problem"`
	// Workload reads it. Empty: kubeadm does.
	Workload string `json:"workload,omitempty"`
}

// Unfinished is a command that stopped halfway. Line is the one that goes on, for a shell; empty: the journal has none.
type Unfinished struct {
	Run     int         `json:"run"`
	Command string      `json:"command"`
	Line    string      `json:"line,omitempty"`
	Machine string      `json:"machine"`
	Began   metav1.Time `json:"began"`
	// Step is the last one that was begun, such as "kubelet of w1", and Done how many came to their end. Error is why it
	// failed; empty: it was killed.
	Step  string `json:"step,omitempty"`
	Done  int    `json:"done"`
	Error string `json:"error,omitempty"`
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

// The parts of a snapshot, as NotSeen names them.
const (
	partNodes       = "nodes"
	partHeartbeats  = "leases in kube-node-lease"
	partLeases      = "leases in kube-system"
	partPods        = "pods in kube-system"
	partDeployments = "deployments"
	partDaemonSets  = "daemonsets"
	partEvents      = "events in kube-system"
	partSandboxes   = "events of pods without a sandbox"
	partBalancing   = "events of services"
	partDeletions   = "events in default"
	partServices    = "services"
	partValidating  = "validating webhook configurations"
	partMutating    = "mutating webhook configurations"
	partDefinitions = "custom resource definitions"
	partNamespaces  = "namespaces"
	partCallouts    = "dry runs of webhooks"
	partServiceNets = "service CIDRs"
	partRequests    = "certificate signing requests"
	partKubeadm     = "kubeadm's configuration"
	partProxy       = "kube-proxy's configuration"
	partKubelet     = "the kubelets' configuration"
	partKubelets    = "settings of kubelets"
	partClusterInfo = "cluster-info"
	partCorefile    = "CoreDNS' configuration"
	partPermissions = "permissions of components"
	partWrites      = "dry runs of writes"
	partExtensions  = "API services"
	partRecord      = "the cluster's record"
	partVersion     = "the API server's version"
	partReviews     = "subject access reviews"
	partInventory   = "the last good inventory"
	partPools       = "address pools"
)

// podsIn is the part with the pods of a namespace, leasesIn that with its Leases.
func podsIn(namespace string) string { return "pods in " + namespace }

// eventsIn is the part with the warnings of a namespace.
func eventsIn(namespace string) string { return "events in " + namespace }

func leasesIn(namespace string) string { return "leases in " + namespace }

// PartJournal is what commands have done, as NotSeen names it. Who gathers reads it: this package does not know its
// form.
const PartJournal = "the cluster's journal"

// PartProbe is the network as Nodes see it, as NotSeen names it.
const PartProbe = "the network as Nodes see it"

// Misread is a document of ccmadm's that is there, and that this version cannot go by.
type Misread struct {
	Message string `json:"message"`
	// Next is what to run.
	Next string `json:"next"`
}

// NewMisread is one by the error of reading it, without credentials, and what to run.
func NewMisread(err error, next string) *Misread {
	return &Misread{Message: finding.Clean(redact.Text(err.Error())), Next: next}
}

// Pool is an AddressPool of the provider onprem, with what its manager says of it.
type Pool struct {
	Name  string            `json:"name"`
	Ready *metav1.Condition `json:"ready,omitempty"`
	// Old says that the condition is not about the pool as it is.
	Old bool `json:"old,omitempty"`
	// Disabled is spec.disabled.
	Disabled bool `json:"disabled,omitempty"`
}

// Webhook is one that is asked before Nodes or pods of kube-system are written, and whose silence is a refusal.
type Webhook struct {
	// Object is the configuration, Name the webhook in it, Index which of its webhooks that is.
	Object string `json:"object"`
	Name   string `json:"name"`
	Index  int    `json:"index,omitempty"`
	// Guards are nodes, pods, leases or services.
	Guards []string `json:"guards"`
	// Namespace and Service serve it; Ready is how many endpoints do. Less than 0: not known.
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	Ready     int    `json:"ready"`
}

const (
	// hostPart is how all of them begin.
	hostPart = "this machine's "
	// partCluster stands for every part that is no machine's.
	partCluster = "the cluster"
)

// Unreached is a snapshot of a cluster that could not be asked at all, for what a machine tells without it. Where
// no cluster was named, so that none was asked, tried is false.
func Unreached(err error, tried bool) *Snapshot {
	s := &Snapshot{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind}, Taken: time.Now().UTC()}
	n := Unseen(partCluster, err)
	if !tried {
		n.Reason = reasonNotAsked
	}
	s.NotSeen = []NotSeen{n}
	return s
}

// Unreached says why the cluster could not be asked at all; nil where it was.
func (s *Snapshot) Unreached() error {
	if n := s.notSeen(partCluster); n != nil {
		return n
	}
	return nil
}

// reasonNotAsked is that of NotSeen where it was not tried.
const reasonNotAsked metav1.StatusReason = "NotAsked"

// Unseen says why something could not be asked for, without credentials.
func Unseen(what string, err error) NotSeen {
	reason := apierrors.ReasonForError(err)
	message := finding.Clean(redact.Text(err.Error()))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		reason = metav1.StatusReasonTimeout
	case apierrors.IsUnauthorized(err):
		message = "Unauthorized" // as the API server says it; client-go words it otherwise where the answer is taken raw
	}
	return NotSeen{What: what, Reason: reason, Message: message}
}

// since is how long before the snapshot something was.
func (s *Snapshot) since(t time.Time) time.Duration { return s.Taken.Sub(t) }

// patience is for how long a Service may wait for its load balancer.
const patience = 5 * time.Minute

// waitsForBalancer reports whether the Service has had no address for that long.
func (s *Snapshot) waitsForBalancer(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.DeletionTimestamp == nil &&
		len(svc.Status.LoadBalancer.Ingress) == 0 && s.since(svc.CreationTimestamp.Time) > patience
}
