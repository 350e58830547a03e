package components

import (
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// MostUnready bounds the pods that are kept of one place. What keeps more from running is seen in these.
const MostUnready = 60

// Collector takes objects of kube-system as lists show them, from several lists at once, and makes [Seen] of them.
type Collector struct {
	// Trim takes credentials and what is never judged out of a pod that is kept.
	Trim func(*corev1.Pod)

	mu   sync.Mutex
	seen Seen
	on   map[string][]string // Nodes with a pod, by DaemonSet
	// proxy is a pod as the DaemonSet of kube-proxy makes it.
	proxy *corev1.Pod
	// endpoints are of Services that every cluster depends on, by their object.
	endpoints map[string][]discoveryv1.EndpointSlice
}

// ProxyPod is a pod as the DaemonSet of kube-proxy makes it. Nil: there is no such DaemonSet.
func (c *Collector) ProxyPod() *corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proxy
}

// Pod takes a pod.
func (c *Collector) Pod(p *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.Status.Phase == corev1.PodSucceeded || nodes.LeftOver(p) {
		return
	}
	if nodes.IsMirror(p) {
		if isStatic(p) || !nodes.IsPodReady(p) {
			c.seen.Static = append(c.seen.Static, c.trimmed(p))
		}
		return
	}
	if kind, name := Owner(p); kind == daemonSet && p.Spec.NodeName != "" {
		if c.on == nil {
			c.on = map[string][]string{}
		}
		c.on[name] = append(c.on[name], p.Spec.NodeName)
	}
	if !nodes.IsPodReady(p) && len(c.seen.Unready) < MostUnready {
		c.seen.Unready = append(c.seen.Unready, c.trimmed(p))
	}
}

func (c *Collector) trimmed(p *corev1.Pod) corev1.Pod {
	kept := p.DeepCopy()
	c.Trim(kept)
	return *kept
}

// DaemonSet takes one of kube-system.
func (c *Collector) DaemonSet(d *appsv1.DaemonSet) {
	if d.Name == Proxy {
		c.mu.Lock()
		c.proxy = PodOf(d)
		c.mu.Unlock()
	}
	c.add(Workload{
		Kind: daemonSet, Name: d.Name, Wanted: d.Status.DesiredNumberScheduled, Ready: d.Status.NumberReady,
		Observed: d.Status.ObservedGeneration >= d.Generation && d.DeletionTimestamp == nil, Selector: d.Spec.Template.Spec.NodeSelector,
		Account: d.Spec.Template.Spec.ServiceAccountName,
	})
}

// PodOf is a pod as the controller of a DaemonSet makes it.
func PodOf(d *appsv1.DaemonSet) *corev1.Pod {
	p := &corev1.Pod{Spec: *d.Spec.Template.Spec.DeepCopy()}
	p.Labels, p.Annotations = d.Spec.Template.Labels, d.Spec.Template.Annotations
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind(daemonSet))}
	return p
}

// Configured takes the name of a workload of kubeadm's whose ConfigMap is there.
func (c *Collector) Configured(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Configured = append(c.seen.Configured, name)
}

// Deployment takes one of kube-system.
func (c *Collector) Deployment(d *appsv1.Deployment) {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	c.add(Workload{
		Kind: deployment, Name: d.Name, Wanted: wanted, Ready: d.Status.ReadyReplicas,
		Observed: d.Status.ObservedGeneration >= d.Generation && d.DeletionTimestamp == nil, Selector: d.Spec.Template.Spec.NodeSelector,
		Account: d.Spec.Template.Spec.ServiceAccountName,
	})
}

func (c *Collector) add(w Workload) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen.Workloads = append(c.seen.Workloads, w)
}

// Seen is what was collected, in an order that does not depend on that of the lists. Static pods that a worker shows are left out:
// a kubelet may show any.
func (c *Collector) Seen(all []corev1.Node) *Seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	stray := nodes.Strays(all)
	c.seen.Static = slices.DeleteFunc(c.seen.Static, func(p corev1.Pod) bool {
		if stray(&p) && p.Labels[v1alpha1.ComponentLabel] == APIServer && len(p.Spec.Containers) > 0 {
			if a, known := advertises(&p); known {
				c.seen.Joining = append(c.seen.Joining, a.String())
			}
		}
		return stray(&p)
	})
	for i := range c.seen.Workloads {
		w := &c.seen.Workloads[i]
		if w.Kind == daemonSet && w.Ready < w.Wanted {
			w.Nodes = slices.Sorted(slices.Values(c.on[w.Name]))
		}
	}
	for i := range c.seen.Services {
		s := &c.seen.Services[i]
		if all, asked := c.endpoints[s.Object]; asked {
			s.countReady(all)
		}
	}
	if s := c.seen.Services; len(s) == 2 && s[0].Object > s[1].Object {
		s[0], s[1] = s[1], s[0]
	}
	byName := func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) }
	slices.Sort(c.seen.Configured)
	slices.Sort(c.seen.Joining)
	slices.SortStableFunc(c.seen.Static, byName)
	slices.SortStableFunc(c.seen.Unready, byName)
	slices.SortStableFunc(c.seen.Workloads, func(a, b Workload) int { return strings.Compare(a.object(), b.object()) })
	return &c.seen
}

const daemonSet, deployment = "DaemonSet", "Deployment"

// Owner is the DaemonSet or Deployment that made a pod. Empty: none did.
func Owner(p *corev1.Pod) (kind, name string) {
	for _, o := range p.OwnerReferences {
		switch o.Kind {
		case daemonSet:
			return daemonSet, o.Name
		case "ReplicaSet":
			if at := strings.LastIndexByte(o.Name, '-'); at > 0 {
				return deployment, o.Name[:at]
			}
		}
	}
	return "", ""
}

// Static are the components that run as static pods.
func Static() []string {
	var names []string
	for _, c := range Expected() {
		if c.Place == EachControlPlane {
			names = append(names, c.Name)
		}
	}
	return names
}

func (w *Workload) object() string { return w.Kind + "/" + v1alpha1.Namespace + "/" + w.Name }
