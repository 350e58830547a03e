package serving

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/config"
)

// Policy takes the addresses in a Node's status for those that the cloud-controller-manager wrote, of whatever vendor, where
// an admission policy keeps kubelets from changing those of Nodes that are initialized. They are no proof: whoever may
// patch the status of Nodes, as network add-ons may on every machine, writes them too, and a manager leaves addresses as
// they are that do not fit the annotation alpha.kubernetes.io/provided-node-ip, which is the kubelet's
// (k8s.io/cloud-provider v0.36.3 controllers/node/node_controller.go, updateNodeAddress). So they count only within the
// ranges and the patterns of names that the administrator or the profile gives.
//
// What a kubelet wrote before, when it registered, is still there until the manager writes over it: right after it
// takes the taint away, or with its next round. So a Node's addresses count once they have changed since the Node
// was seen initialized, or once that is Settle ago; and none counts before the policy is as old.
type Policy struct {
	Client kubernetes.Interface
	// Settle is longer than the time between two rounds of the manager (--node-status-update-frequency).
	Settle time.Duration
	Now    func() time.Time

	mu   sync.Mutex
	seen map[types.UID]sighting
}

// sighting is of a Node that is initialized.
type sighting struct {
	since     time.Time
	addresses []corev1.NodeAddress // as they were then
	rewritten bool
}

// Follow lets it see Nodes come and change.
func (p *Policy) Follow(informer cache.SharedIndexInformer) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: p.see,
		UpdateFunc: func(before, now any) {
			if old, is := before.(*corev1.Node); is && old.UID != now.(metav1.Object).GetUID() {
				p.forget(old) // it was deleted, and another registered with its name, while the watch was away
			}
			p.see(now)
		},
		DeleteFunc: func(last any) {
			if missed, ok := last.(cache.DeletedFinalStateUnknown); ok {
				last = missed.Obj
			}
			if node, ok := last.(*corev1.Node); ok {
				p.forget(node)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch Nodes: %w", err)
	}
	return nil
}

func (p *Policy) forget(node *corev1.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen, node.UID)
}

func (p *Policy) see(object any) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[types.UID]sighting{}
	}
	s, known := p.seen[node.UID]
	switch {
	case resolved(node) != nil:
		delete(p.seen, node.UID)
		return
	case !known:
		s = sighting{since: p.Now(), addresses: node.Status.Addresses}
	default:
		s.rewritten = s.rewritten || !slices.Equal(s.addresses, node.Status.Addresses)
	}
	p.seen[node.UID] = s
}

// Identify answers with the addresses of the Node's status, once they are its manager's.
func (p *Policy) Identify(ctx context.Context, node *corev1.Node) (Identity, error) {
	since, err := p.inForce(ctx)
	if err != nil {
		return Identity{}, err
	}
	if left := p.Settle - p.Now().Sub(since); left > 0 {
		return Identity{}, unsettled(left, "the policy %s is new: addresses count from %s on", config.KubeletPolicyName,
			since.Add(p.Settle).UTC().Format(time.RFC3339))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s, known := p.seen[node.UID]
	if !known {
		return Identity{}, hold("NotSettled", "Node/%s was not seen initialized yet", node.Name)
	}
	s.rewritten = s.rewritten || !slices.Equal(s.addresses, node.Status.Addresses)
	if settled := s.since.Add(p.Settle); !s.rewritten && p.Now().Before(settled) {
		return Identity{}, unsettled(settled.Sub(p.Now()), "the addresses of Node/%s may still be those that its kubelet registered with: "+
			"they count from %s on, or when they change", node.Name, settled.UTC().Format(time.RFC3339))
	}
	return Identity{Addresses: addressesOf(node), Guarded: true}, nil
}

// addressesOf are those by which a machine is reached. A manager keeps entries of type Hostname that its kubelet has
// registered with, whatever stands in them.
func addressesOf(node *corev1.Node) []corev1.NodeAddress {
	return slices.DeleteFunc(slices.Clone(node.Status.Addresses), func(a corev1.NodeAddress) bool {
		return a.Type == corev1.NodeHostName
	})
}

// unsettled is what passes with time.
func unsettled(left time.Duration, format string, args ...any) *Hold {
	h := hold("NotSettled", format, args...)
	h.Again = left
	return h
}

// inForce says since when the policy is there, complete and bound: since it was last changed.
func (p *Policy) inForce(ctx context.Context) (time.Time, error) {
	const name = config.KubeletPolicyName
	policy, err := p.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return time.Time{}, hold("NoPolicy", "ValidatingAdmissionPolicy/%s does not exist, which keeps kubelets from changing their "+
			"addresses: ccmadm apply installs it", name)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("get ValidatingAdmissionPolicy/%s: %w", name, err)
	}
	binding, err := p.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return time.Time{}, hold("NoPolicy", "ValidatingAdmissionPolicyBinding/%s does not exist: ccmadm apply installs it", name)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("get ValidatingAdmissionPolicyBinding/%s: %w", name, err)
	}
	if !keeps(policy, binding) {
		return time.Time{}, hold("NoPolicy", "ValidatingAdmissionPolicy/%s or its binding is not as ccmadm made it: ccmadm apply "+
			"repairs it", name)
	}
	since, bound := changedAt(policy), changedAt(binding)
	if since.After(bound) {
		return since, nil
	}
	return bound, nil
}

// changedAt is when an object was last written, but for its status. Its age does not tell that it has let kubelets by
// for a while.
func changedAt(object metav1.Object) time.Time {
	last := object.GetCreationTimestamp().Time
	for _, write := range object.GetManagedFields() {
		if write.Subresource == "" && write.Time != nil && write.Time.After(last) {
			last = write.Time.Time
		}
	}
	return last
}

// keeps reports whether the two are what they are to be, in all that could let a kubelet by.
func keeps(policy *admissionv1.ValidatingAdmissionPolicy, binding *admissionv1.ValidatingAdmissionPolicyBinding) bool {
	spec, bound := policy.Spec, binding.Spec
	says := func(expression string) bool {
		return slices.ContainsFunc(spec.Validations, func(v admissionv1.Validation) bool { return v.Expression == expression })
	}
	return says(config.KubeletPolicyCreate) && says(config.KubeletPolicyAddresses) && says(config.KubeletPolicyNames) &&
		len(spec.MatchConditions) == 1 && spec.MatchConditions[0].Expression == config.KubeletPolicyCondition &&
		(spec.FailurePolicy == nil || *spec.FailurePolicy == admissionv1.Fail) && matchesNodes(spec.MatchConstraints) &&
		bound.PolicyName == policy.Name && bound.MatchResources == nil && bound.ParamRef == nil &&
		slices.Contains(bound.ValidationActions, admissionv1.Deny)
}

// matchesNodes reports whether all that kubelets write of Nodes is looked at.
func matchesNodes(match *admissionv1.MatchResources) bool {
	if match == nil || len(match.ExcludeResourceRules) > 0 || !all(match.NamespaceSelector) || !all(match.ObjectSelector) {
		return false
	}
	covers := func(operation admissionv1.OperationType, resource string) bool {
		return slices.ContainsFunc(match.ResourceRules, func(r admissionv1.NamedRuleWithOperations) bool {
			return len(r.ResourceNames) == 0 && slices.Contains(r.Operations, operation) && slices.Contains(r.Resources, resource) &&
				slices.Contains(r.APIGroups, "") && slices.Contains(r.APIVersions, "v1") &&
				(r.Scope == nil || *r.Scope != admissionv1.NamespacedScope)
		})
	}
	return covers(admissionv1.Create, "nodes") && covers(admissionv1.Update, "nodes/status")
}

// all reports whether a selector leaves nothing out.
func all(selector *metav1.LabelSelector) bool {
	return selector == nil || len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0
}
