// Package callouts is the list of what an API server calls while it serves a request: validating and mutating webhooks, and webhooks
// that convert objects of CustomResourceDefinitions. (Extensions of the API are in package doctor/requests: the API server itself
// says of these whether they answer.) Of each it knows what it guards, in which namespaces, what its silence means and for how long
// a request waits for it; whether its Service leads to a pod; and, by dry runs, whether it answers at all.
//
// Start at [Collector], which takes the objects as lists of a snapshot show them, at [Collector.Try] and [Converts], which ask, and
// at [Judge].
//
// Reads: webhook configurations, Namespaces, Services, endpoints, CustomResourceDefinitions.
// Writes: nothing. Writes are asked for as dry runs.
// Running it twice: asks again.
// It will not: judge what could not be asked, or a webhook that fails open and whose Service has no endpoint: that is answered at once.
package callouts

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Callout is something that the API server calls.
type Callout struct {
	// Object is KIND/NAME of what has the API server call it. Name is the webhook in it, and Index which of its webhooks that is;
	// empty for a conversion, of which an object has one.
	Object string `json:"object"`
	Name   string `json:"name,omitempty"`
	Index  int    `json:"index,omitempty"`
	// Guards are the resources about which it is asked, as ingresses.networking.k8s.io; Narrow says that it is asked about some of them only.
	Guards []string `json:"guards"`
	Narrow bool     `json:"narrow,omitempty"`
	// Namespaces are those of the objects. Nil: all, or it is not known; none is an empty list, also in a snapshot that was written.
	Namespaces []string `json:"namespaces"`
	// Closed says that its silence is a refusal, Timeout how many seconds a request waits for it.
	Closed  bool  `json:"closed,omitempty"`
	Timeout int32 `json:"timeout,omitempty"`
	// Namespace and Service serve it, on Port. Empty: it is called by a URL.
	Namespace string `json:"namespace,omitempty"`
	Service   string `json:"service,omitempty"`
	Port      int32  `json:"port,omitempty"`
	// Ready is how many endpoints the Service has. Less than 0: it is not known. Lacks says that the Service cannot lead anywhere.
	Ready int    `json:"ready"`
	Lacks string `json:"lacks,omitempty"`
	// Fails is what was seen when it was asked. Empty: it has answered, or was not asked.
	Fails string `json:"fails,omitempty"`
	// Unsure says that it may be another webhook that fails.
	Unsure bool `json:"unsure,omitempty"`
}

// ServiceName is that of the Service that serves it; an empty one where none does.
func (c *Callout) ServiceName() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Service}
}

// hook is a webhook of either kind.
type hook struct {
	Callout
	rules      []admissionv1.RuleWithOperations
	namespaces *metav1.LabelSelector
	objects    labels.Selector
	// conditional says that expressions decide whether it is asked.
	conditional bool
	// dry says that it may be asked in a dry run.
	dry bool
}

// service is what is known of one.
type service struct {
	ports []int32
	// elsewhere says that its name leads out of the cluster: it has no endpoints.
	elsewhere bool
}

// Collector takes objects from several lists at once.
type Collector struct {
	mu          sync.Mutex
	hooks       []hook
	conversions []conversion
	services    map[types.NamespacedName]service
	// listed says that services are all there are.
	listed bool
	// namespaces are all, with their labels, and names what they are called, in order.
	namespaces map[string]labels.Set
	names      []string
	// patience is that of tests. 0: the usual.
	patience time.Duration
}

// Validating takes a configuration.
func (c *Collector) Validating(w *admissionv1.ValidatingWebhookConfiguration) {
	for i := range w.Webhooks {
		h := &w.Webhooks[i]
		c.add(hook{
			Callout: Callout{Object: "ValidatingWebhookConfiguration/" + w.Name, Name: h.Name, Index: i}, rules: h.Rules,
			namespaces: h.NamespaceSelector, conditional: len(h.MatchConditions) > 0,
		}, h.ClientConfig, h.FailurePolicy, h.TimeoutSeconds, h.SideEffects, h.ObjectSelector)
	}
}

// Mutating takes a configuration.
func (c *Collector) Mutating(w *admissionv1.MutatingWebhookConfiguration) {
	for i := range w.Webhooks {
		h := &w.Webhooks[i]
		c.add(hook{
			Callout: Callout{Object: "MutatingWebhookConfiguration/" + w.Name, Name: h.Name, Index: i}, rules: h.Rules,
			namespaces: h.NamespaceSelector, conditional: len(h.MatchConditions) > 0,
		}, h.ClientConfig, h.FailurePolicy, h.TimeoutSeconds, h.SideEffects, h.ObjectSelector)
	}
}

// The API server's defaults (kubernetes pkg/apis/admissionregistration/v1/defaults.go).
const defaultTimeout, defaultPort = 10, 443

func (c *Collector) add(h hook, client admissionv1.WebhookClientConfig, policy *admissionv1.FailurePolicyType, timeout *int32,
	effects *admissionv1.SideEffectClass, objects *metav1.LabelSelector,
) {
	h.Closed = policy == nil || *policy != admissionv1.Ignore
	h.Timeout, h.Ready = defaultTimeout, -1
	if timeout != nil {
		h.Timeout = *timeout
	}
	if s := client.Service; s != nil {
		h.Namespace, h.Service, h.Port = s.Namespace, s.Name, defaultPort
		if s.Port != nil {
			h.Port = *s.Port
		}
	}
	h.dry = effects != nil && (*effects == admissionv1.SideEffectClassNone || *effects == admissionv1.SideEffectClassNoneOnDryRun)
	h.objects = labels.Everything()
	if objects != nil {
		selector, err := metav1.LabelSelectorAsSelector(objects)
		if err != nil {
			return
		}
		h.objects = selector
	}
	h.Narrow = h.conditional || !h.objects.Empty()
	for _, r := range h.rules {
		if writes(r) {
			h.Guards = append(h.Guards, resources(r)...)
		}
	}
	slices.Sort(h.Guards)
	if h.Guards = slices.Compact(h.Guards); len(h.Guards) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks = append(c.hooks, h)
}

// writes says that a rule is about objects that are made or changed.
func writes(r admissionv1.RuleWithOperations) bool {
	return slices.ContainsFunc(r.Operations, func(o admissionv1.OperationType) bool {
		return o != admissionv1.Delete && o != admissionv1.Connect
	})
}

// resources are those of a rule, as kubectl names them.
func resources(r admissionv1.RuleWithOperations) []string {
	var list []string
	for _, resource := range r.Resources {
		for _, group := range r.APIGroups {
			name := resource
			if group != "" {
				name += "." + group
			}
			list = append(list, name)
		}
	}
	return list
}

// Service takes any Service.
func (c *Collector) Service(s *corev1.Service) {
	known := service{elsewhere: s.Spec.Type == corev1.ServiceTypeExternalName}
	for _, p := range s.Spec.Ports {
		known.ports = append(known.ports, p.Port)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.services == nil {
		c.services = map[types.NamespacedName]service{}
	}
	c.services[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = known
}

// ServicesListed says that there are no other Services.
func (c *Collector) ServicesListed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = true
}

// Namespaces takes the labels of all that are not being deleted.
func (c *Collector) Namespaces(all map[string]labels.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.namespaces, c.names = all, slices.Sorted(maps.Keys(all))
}

// Labels are those of a Namespace; false: there is none, or they are not known.
func (c *Collector) Labels(namespace string) (labels.Set, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set, is := c.namespaces[namespace]
	return set, is
}

// Selects says that a webhook goes by labels of Namespaces, so that these have to be known.
func (c *Collector) Selects() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.hooks, func(h hook) bool { return selects(h.namespaces) })
}

func selects(s *metav1.LabelSelector) bool {
	return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0
}

// Services are those that have to lead to a pod: of webhooks that fail closed, and of conversions.
func (c *Collector) Services() []types.NamespacedName {
	known := map[types.NamespacedName]bool{}
	for _, called := range c.all() {
		if called.Service != "" && called.Lacks == "" && !c.services[called.ServiceName()].elsewhere && called.Closed {
			known[called.ServiceName()] = true
		}
	}
	return slices.SortedFunc(maps.Keys(known), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	})
}

// all are the callouts as they are known so far, in the order of their names.
func (c *Collector) all() []*Callout {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*Callout
	for i := range c.hooks {
		if c.namespaces == nil && selects(c.hooks[i].namespaces) {
			continue // in which namespaces it is asked is not known
		}
		c.hooks[i].Namespaces = c.selected(&c.hooks[i])
		list = append(list, &c.hooks[i].Callout)
	}
	for i := range c.conversions {
		list = append(list, &c.conversions[i].Callout)
	}
	for _, called := range list {
		called.Lacks = c.lacks(called)
	}
	slices.SortFunc(list, func(a, b *Callout) int {
		return cmp.Or(strings.Compare(a.Object, b.Object), cmp.Compare(a.Index, b.Index))
	})
	return list
}

// lacks says why a Service leads nowhere, whatever its endpoints are.
func (c *Collector) lacks(called *Callout) string {
	s, known := c.services[called.ServiceName()]
	switch {
	case called.Service == "" || !c.listed:
		return ""
	case !known:
		return "does not exist"
	case !s.elsewhere && !slices.Contains(s.ports, called.Port):
		return "has no port " + strconv.Itoa(int(called.Port))
	}
	return ""
}

// selected are the namespaces about whose objects a webhook is asked. Nil: all, or they are not known.
func (c *Collector) selected(h *hook) []string {
	selector, err := metav1.LabelSelectorAsSelector(h.namespaces)
	if !selects(h.namespaces) || err != nil {
		return nil
	}
	list := []string{}
	for _, name := range c.names {
		if selector.Matches(c.namespaces[name]) {
			list = append(list, name)
		}
	}
	return list
}

// Endpoints takes how many endpoints of a Service are ready.
func (c *Collector) Endpoints(of types.NamespacedName, ready int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.hooks {
		if called := &c.hooks[i].Callout; called.ServiceName() == of {
			called.Ready = ready
		}
	}
	for i := range c.conversions {
		if called := &c.conversions[i].Callout; called.ServiceName() == of {
			called.Ready = ready
		}
	}
}

// Seen are all callouts.
func (c *Collector) Seen() []Callout {
	var list []Callout
	for _, called := range c.all() {
		list = append(list, *called)
	}
	return list
}
