// Package serving approves the serving certificates that kubelets with serverTLSBootstrap ask for, where requester, names
// and addresses are those of a Node that was initialized. Kubernetes signs what is approved, and approves none by itself.
//
// Start at [New] and [Approver.Run]. request.go says what a kubelet may ask for at all, judge.go for which names and
// addresses; a [Prover] says which of those are known of a Node, and are more than its kubelet's word. Of the provider
// onprem that is provider/nodes, with its inventory; beside a vendor's manager it is [Policy].
//
// Reads: CertificateSigningRequests of the signer kubernetes.io/kubelet-serving, Nodes, ServiceCIDRs, Services, webhook
// configurations, the ConfigMaps kube-public/cluster-info and kube-system/kubeadm-config, and the certificate of the API server.
// Writes: the condition Approved of such requests, and Events on those that it leaves pending.
// Running it twice: what is approved is not looked at again; the newest that are pending are, with changes of their Node,
// up to ten seconds apart, and after a minute, two, four and so on, up to an hour. Two of them at once come to the same.
// It will not: deny. What it does not approve an administrator still can, and nothing is decided while anything that
// has to be known cannot be asked for.
package serving

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Identity is what is known of the machine behind a Node.
type Identity struct {
	// Addresses are its addresses and names.
	Addresses []corev1.NodeAddress
	// Proven says that they are more than the word of the Node's kubelet.
	Proven bool
	// Named says that the inventory lists the Node's name for the machine whose provider ID it has: any other Node with that ID is
	// the machine under a former name.
	Named bool
	// Guarded says that an admission policy keeps kubelets from changing those in the status of a Node.
	Guarded bool
}

// Prover says who a Node is. A *Hold as error leaves requests pending; any other one is no answer, and it is asked again.
type Prover interface {
	Identify(ctx context.Context, node *corev1.Node) (Identity, error)
}

// Hold is why a request stays pending.
type Hold struct {
	// Reason is that of the Event.
	Reason string
	// Message says what to do about it. Text of the request may be in it.
	Message string
	// Again is when it is looked at again, if time alone changes it.
	Again time.Duration
}

func (h *Hold) Error() string { return h.Message }

func hold(reason, format string, args ...any) *Hold {
	return &Hold{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Settings are what requests are judged with.
type Settings struct {
	Client kubernetes.Interface
	Nodes  cache.SharedIndexInformer
	Prover Prover
	// Ranges are where addresses that are not proven are trusted.
	Ranges []netip.Prefix
	// Names are patterns of names that are not proven, and count all the same.
	Names Names
	// APIServerNames returns the names and addresses in the certificate that the API server presents.
	APIServerNames func(context.Context) ([]string, error)
	// Endpoint is the host of the API server's URL.
	Endpoint string
	Recorder record.EventRecorder
}

// Approver approves requests, from Run on.
type Approver struct {
	Settings

	requests cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[string] // of requesters, so that one with many requests is one of many
	held     workqueue.TypedRateLimiter[string]           // says when what stays pending is looked at again
	looks    *looks
	told     *told
	metrics  *metrics
}

// byRequester finds requests by who made them.
const byRequester = "requester"

// New makes an approver. It sends no request.
func New(s Settings) (*Approver, error) {
	a := &Approver{
		Settings: s, told: &told{last: map[string]string{}}, looks: newLooks(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)),
		held: workqueue.NewTypedItemExponentialFailureRateLimiter[string](lookAgain, lookSeldom),
	}
	a.metrics = newMetrics(a.told.count)
	a.requests = newRequests(s.Client)
	if _, err := a.requests.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    a.enqueue,
		UpdateFunc: func(_, now any) { a.enqueue(now) },
		DeleteFunc: a.deleted,
	}); err != nil {
		return nil, fmt.Errorf("watch CertificateSigningRequests: %w", err)
	}
	if _, err := s.Nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    a.nodeChanged,
		UpdateFunc: func(_, now any) { a.nodeChanged(now) },
	}); err != nil {
		return nil, fmt.Errorf("watch Nodes: %w", err)
	}
	return a, nil
}

// newRequests makes an informer of the requests of the one signer.
func newRequests(client kubernetes.Interface) cache.SharedIndexInformer {
	only := func(options *metav1.ListOptions) {
		options.FieldSelector = "spec.signerName=" + certificatesv1.KubeletServingSignerName
	}
	requests := client.CertificatesV1().CertificateSigningRequests()
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			only(&options)
			return requests.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			only(&options)
			return requests.Watch(ctx, options)
		},
	}, &certificatesv1.CertificateSigningRequest{}, 0, cache.Indexers{byRequester: func(object any) ([]string, error) {
		csr, ok := object.(*certificatesv1.CertificateSigningRequest)
		if !ok {
			return nil, fmt.Errorf("index %T: want a CertificateSigningRequest", object)
		}
		return []string{csr.Spec.Username}, nil
	}})
}

// enqueue has the requester's requests looked at, if this one is pending.
func (a *Approver) enqueue(object any) {
	csr, ok := object.(*certificatesv1.CertificateSigningRequest)
	switch {
	case !ok:
	case pending(csr):
		a.queue.Add(csr.Spec.Username)
	default:
		a.told.forget(csr.Name)
	}
}

func (a *Approver) deleted(object any) {
	if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
		a.told.forget(name)
	}
}

// nodeChanged looks again at what a Node's kubelet waits for, at once if the last look is not just over.
func (a *Approver) nodeChanged(object any) {
	if node, ok := object.(*corev1.Node); ok {
		requester := v1alpha1.NodeUserPrefix + node.Name
		a.queue.AddAfter(requester, a.looks.wait(requester, time.Now()))
	}
}

// Names are patterns of DNS names: a name, or *.DOMAIN for all names below a domain.
type Names []string

// ParseNames reads patterns.
func ParseNames(list []string) (Names, error) {
	var names Names
	for _, text := range list {
		pattern := strings.ToLower(strings.TrimSpace(text))
		if len(validation.IsDNS1123Subdomain(strings.TrimPrefix(pattern, "*."))) > 0 {
			return nil, fmt.Errorf("read name %q: want a name, or *.DOMAIN", text)
		}
		names = append(names, pattern)
	}
	return names, nil
}

func (n Names) match(name string) bool {
	return slices.ContainsFunc(n, func(pattern string) bool {
		domain, below := strings.CutPrefix(pattern, "*")
		return name == pattern || below && strings.HasSuffix(name, domain)
	})
}

// ParseRanges reads CIDRs in which addresses that are not proven are trusted.
func ParseRanges(list []string) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for _, text := range list {
		prefix, err := config.ParseAddressRange(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("read address range %q: %w", text, err)
		}
		ranges = append(ranges, prefix)
	}
	return ranges, nil
}
