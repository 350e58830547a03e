package diagnosis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/callouts"
)

// guarded are the resources that a cloud-controller-manager or its pods depend on.
func guarded() []string {
	return []string{"nodes", "nodes/status", "pods", "leases", "services", "services/status"}
}

func validating(c *admissionv1.ValidatingWebhookConfiguration, system systemLabels) []Webhook {
	var list []Webhook
	for i, w := range c.Webhooks {
		if narrow(w.ObjectSelector, w.MatchConditions) || !closed(w.FailurePolicy, w.ClientConfig) {
			continue
		}
		list = appendWebhook(list, Webhook{
			Object: "ValidatingWebhookConfiguration/" + c.Name, Index: i, Name: w.Name,
			Namespace: w.ClientConfig.Service.Namespace, Service: w.ClientConfig.Service.Name, Ready: -1,
		}, w.Rules, selects(w.NamespaceSelector, system))
	}
	return list
}

func mutating(c *admissionv1.MutatingWebhookConfiguration, system systemLabels) []Webhook {
	var list []Webhook
	for i, w := range c.Webhooks {
		if narrow(w.ObjectSelector, w.MatchConditions) || !closed(w.FailurePolicy, w.ClientConfig) {
			continue
		}
		list = appendWebhook(list, Webhook{
			Object: "MutatingWebhookConfiguration/" + c.Name, Index: i, Name: w.Name,
			Namespace: w.ClientConfig.Service.Namespace, Service: w.ClientConfig.Service.Name, Ready: -1,
		}, w.Rules, selects(w.NamespaceSelector, system))
	}
	return list
}

// closed says that a webhook is a Service whose silence is a refusal.
func closed(policy *admissionv1.FailurePolicyType, client admissionv1.WebhookClientConfig) bool {
	return client.Service != nil && (policy == nil || *policy != admissionv1.Ignore)
}

// appendWebhook adds what a webhook guards; inSystem says that it is asked about objects of kube-system.
func appendWebhook(list []Webhook, w Webhook, rules []admissionv1.RuleWithOperations, inSystem bool) []Webhook {
	for _, resource := range guarded() {
		namespaced := resource != "nodes" && resource != "nodes/status"
		if (!namespaced || inSystem) &&
			slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool { return matches(r, resource) }) {
			w.Guards = append(w.Guards, resource)
		}
	}
	if len(w.Guards) == 0 {
		return list
	}
	return append(list, w)
}

// narrow says that a webhook is about some objects only: whether a manager's are among them is not decided here.
func narrow(objects *metav1.LabelSelector, conditions []admissionv1.MatchCondition) bool {
	return len(conditions) > 0 || objects != nil && len(objects.MatchLabels)+len(objects.MatchExpressions) > 0
}

// systemLabels are the labels of Namespace kube-system, asked for where a webhook selects namespaces.
type systemLabels func() labels.Set

func selects(s *metav1.LabelSelector, system systemLabels) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return s == nil || err == nil && (selector.Empty() || selector.Matches(system()))
}

// labelsOfSystem asks once. Where it may not, the label that each namespace has is all that is known.
func (l *looking) labelsOfSystem(ctx context.Context, c kubernetes.Interface) systemLabels {
	return sync.OnceValue(func() labels.Set {
		if err := l.namespaces(ctx, c); err == nil {
			if set, is := l.calls.Labels(v1alpha1.Namespace); is {
				return set
			}
		}
		ns, err := c.CoreV1().Namespaces().Get(ctx, v1alpha1.Namespace, metav1.GetOptions{})
		if err != nil {
			l.ask("labels of Namespace/"+v1alpha1.Namespace, func() (func(), error) { return nil, err })
			return labels.Set{corev1.LabelMetadataName: v1alpha1.Namespace}
		}
		return ns.Labels
	})
}

// namespaces lists them, once, with their labels.
func (l *looking) namespaces(ctx context.Context, c kubernetes.Interface) error {
	l.namespacesOnce.Do(func() {
		known := map[string]labels.Set{}
		_, l.namespacesErr = all(ctx, simple(c.CoreV1().Namespaces().List), metav1.ListOptions{}, mostNodes, func(n *corev1.Namespace) bool {
			if n.DeletionTimestamp == nil {
				known[n.Name] = n.Labels
			}
			return false
		})
		if l.namespacesErr == nil {
			l.calls.Namespaces(known)
		}
	})
	return l.namespacesErr
}

// matches reports whether the rule is about writing the resource.
func matches(r admissionv1.RuleWithOperations, resource string) bool {
	of, part, _ := strings.Cut(resource, "/") // as the API server reads rules, "*" as a part is the whole as well
	about := slices.ContainsFunc(r.Resources, func(name string) bool {
		ruled, ruledPart, _ := strings.Cut(name, "/")
		return (ruled == "*" || ruled == of) && (ruledPart == "*" || ruledPart == part)
	})
	writes := slices.ContainsFunc(
		r.Operations,
		func(o admissionv1.OperationType) bool { return o != admissionv1.Delete && o != admissionv1.Connect },
	)
	group := ""
	if resource == "leases" {
		group = "coordination.k8s.io"
	}
	return writes && about &&
		(slices.Contains(r.APIGroups, "*") || slices.Contains(r.APIGroups, group))
}

// mostWebhooks is how many Services of webhooks are looked at.
const mostWebhooks = 20

// webhooks fills in Ready, by one question for each Service. What is not asked, or has no answer, stays unknown.
func (l *looking) webhooks(ctx context.Context, c kubernetes.Interface) {
	s, services := l.snapshot, map[types.NamespacedName][]int{}
	for i, w := range s.Webhooks {
		service := types.NamespacedName{Namespace: w.Namespace, Name: w.Service}
		services[service] = append(services[service], i)
	}
	names := slices.SortedFunc(maps.Keys(services), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	})
	l.endpoints(ctx, c, names, "webhooks", func(service types.NamespacedName, ready int) {
		for _, i := range services[service] {
			s.Webhooks[i].Ready = ready
		}
		l.calls.Endpoints(service, ready)
	})
}

// endpoints asks how many of each Service are ready, and says whose Services were left out.
func (l *looking) endpoints(ctx context.Context, c kubernetes.Interface, of []types.NamespacedName, whose string,
	keep func(service types.NamespacedName, ready int),
) {
	if left := len(of) - mostWebhooks; left > 0 {
		l.unseen(NotSeen{
			What:    "endpoints of " + finding.Count(left, "Service") + " of " + whose,
			Message: fmt.Sprintf("no more than %d are asked for", mostWebhooks),
		})
	}
	for _, service := range of[:min(len(of), mostWebhooks)] {
		l.ask("endpoints of Service/"+service.String(), func() (func(), error) {
			ready, err := countEndpoints(ctx, c, service)
			if err != nil {
				return nil, err
			}
			return func() { keep(service, ready) }, nil
		})
	}
}

// callouts asks for the endpoints of all Services that the API server calls, but those for which webhooks asks.
func (l *looking) callouts(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	if l.calls.Selects() {
		if err := l.namespaces(ctx, c); err != nil {
			l.unseen(Unseen(partNamespaces, err))
		}
	}
	l.mu.Lock() // how many endpoints webhooks have is written down meanwhile
	left := slices.DeleteFunc(l.calls.Services(), func(service types.NamespacedName) bool {
		return slices.ContainsFunc(s.Webhooks, func(w Webhook) bool { return w.Namespace == service.Namespace && w.Service == service.Name })
	})
	l.mu.Unlock()
	l.endpoints(ctx, c, left, "webhooks for other namespaces", l.calls.Endpoints)
}

// tryCallouts asks those that can be asked, in a cluster of kubeadm, as dry runs of writes are in no other.
func (l *looking) tryCallouts(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	if s.Kubeadm == "" || l.lacks(partNodes) {
		s.Callouts = l.calls.Seen()
		return
	}
	node := ""
	if len(s.Nodes) > 0 {
		node = s.Nodes[0].Name
	}
	l.ask(partCallouts, func() (func(), error) {
		err := l.calls.Try(ctx, c.Discovery().RESTClient(), node)
		return func() { s.Callouts = l.calls.Seen() }, err
	})
}

// unansweredCalls finds callouts that are no webhooks which unserved finds, and are in no configuration with one of those.
func unansweredCalls(s *Snapshot) []finding.Finding {
	of := blocked(s)
	return slices.DeleteFunc(otherCalls(s), func(f finding.Finding) bool { return isOf(of, &f) })
}

func otherCalls(s *Snapshot) []finding.Finding {
	return callouts.Judge(s.Callouts, func(object, name string) bool {
		return slices.ContainsFunc(s.Webhooks, func(w Webhook) bool { return w.Ready == 0 && w.Object == object && w.Name == name })
	})
}

func isOf(list []finding.Finding, f *finding.Finding) bool {
	return slices.ContainsFunc(list, func(known finding.Finding) bool { return known.ID == f.ID && known.Object == f.Object })
}

// refusing leaves what a callout can explain: that a write is refused, where the refusal names it.
func refusing() func(*view, *finding.Finding, []finding.ID) []finding.ID {
	return func(v *view, f *finding.Finding, all []finding.ID) []finding.ID {
		if v.Served == nil || len(v.Served.Refused) == 0 {
			return nil
		}
		for _, r := range v.Served.Refused {
			if !slices.ContainsFunc(v.Callouts, func(c callouts.Callout) bool {
				return c.Object == f.Object && c.Name != "" && strings.Contains(r.Message, `"`+c.Name+`"`)
			}) {
				return nil
			}
		}
		return all
	}
}

// slicesOf lists the EndpointSlices of a Service.
func slicesOf(ctx context.Context, c kubernetes.Interface, service types.NamespacedName) ([]discoveryv1.EndpointSlice, error) {
	list, err := c.DiscoveryV1().EndpointSlices(service.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + service.Name, Limit: pageSize,
	})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// countEndpoints is how many of a Service are ready.
func countEndpoints(ctx context.Context, c kubernetes.Interface, service types.NamespacedName) (ready int, err error) {
	all, err := slicesOf(ctx, c, service)
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready++
			}
		}
	}
	return ready, nil
}

// byGuards leaves what the webhooks of a configuration can explain: pods that are not there, what a manager cannot write.
func byGuards(v *view, f *finding.Finding, all []finding.ID) []finding.ID {
	of := slices.DeleteFunc(slices.Clone(v.Webhooks), func(w Webhook) bool { return w.Object != f.Object || w.Ready != 0 })
	if len(of) == 0 {
		return all
	}
	list := []finding.ID{finding.WriteRefused}
	guards := func(resource string) bool {
		return slices.ContainsFunc(of, func(w Webhook) bool { return slices.Contains(w.Guards, resource) })
	}
	if m := v.main(); guards("pods") && (m == nil || len(m.pods) == 0) {
		list = append(list, finding.NoPod, finding.LeaderSilent, finding.NoLeader)
	}
	if guards("leases") {
		list = append(list, finding.LeaderSilent, finding.NoLeader)
	}
	if guards("nodes") || guards("nodes/status") {
		list = append(list, finding.ManagerFails, finding.NotServed)
	}
	if guards("services") || guards("services/status") {
		list = append(list, finding.BalancerPending, finding.BalancerStuck)
	}
	return list
}

// unserved finds webhooks without a ready endpoint, with others of the same configurations that are about other namespaces.
func unserved(v *view) []finding.Finding {
	list := blocked(v.Snapshot)
	for _, f := range otherCalls(v.Snapshot) {
		if isOf(list, &f) {
			list = callouts.Merge(list, f)
		}
	}
	return list
}

// blocked finds webhooks without a ready endpoint, one finding for each configuration.
func blocked(s *Snapshot) []finding.Finding {
	var list []finding.Finding
	for _, w := range s.Webhooks {
		if w.Ready != 0 {
			continue
		}
		f := finding.WebhookBlocks.New(w.Object, "webhook "+w.Name+" fails closed, guards "+join(w.Guards)+
			", and its Service "+w.Namespace+"/"+w.Service+" has no ready endpoint")
		called := callouts.Callout{Object: w.Object, Name: w.Name, Index: w.Index}
		f.Next = "start its pods; or, until they run: " + called.Ignored()
		list = callouts.Merge(list, f)
	}
	return list
}

// Admission looks only at what can refuse a change of Nodes: the webhooks that fail closed, each with
// its endpoints, and kubelets' requests for certificates without an answer. Where a part cannot be seen it is an
// error.
func Admission(ctx context.Context, c kubernetes.Interface) (*Snapshot, error) {
	s := &Snapshot{}
	l := newLooking(s)
	l.admission(ctx, c)
	l.wg.Wait()
	l.webhooks(ctx, c)
	l.wg.Wait()
	var unseen []error
	for i := range s.NotSeen {
		unseen = append(unseen, &s.NotSeen[i])
	}
	if err := errors.Join(unseen...); err != nil {
		return nil, fmt.Errorf("read the admission webhooks of the API server: %w", err)
	}
	return s, nil
}
