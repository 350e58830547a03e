package diagnosis

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// routes finds Nodes to which upstream's route controller made no route, and those of which a CNI plugin says that they have no network.
func routes(v *view) []finding.Finding {
	var list []finding.Finding
	for i := range v.Nodes {
		n := &v.Nodes[i]
		_, c := nodeutil.GetNodeCondition(&n.Status, corev1.NodeNetworkUnavailable)
		if c == nil || c.Status != corev1.ConditionTrue || v.since(c.LastTransitionTime.Time) < time.Minute {
			continue
		}
		if c.Reason != "NoRouteCreated" {
			if nodestatus.IsReady(n) { // else the kubelet says what is wrong
				list = append(list, withoutNetwork(v.facts.Networks, n.Name, c))
			}
			continue
		}
		f := finding.RouteFailed.New("Node/"+n.Name, "condition NetworkUnavailable: "+c.Message)
		f.Next = "kubectl -n default get events --field-selector reason=FailedToCreateRoute"
		if m := v.main(); m != nil && m.arg("configure-cloud-routes") == "false" {
			f.Message += "; routes are switched off now, so no controller resets the condition"
			f.Next = "kubectl patch node " + n.Name + ` --subresource=status -p '{"status":{"conditions":[{"type":"NetworkUnavailable","status":"False","reason":"RoutesOff"}]}}'`
		}
		list = append(list, f)
	}
	return list
}

// withoutNetwork is about a Node by its condition, which the pod of a CNI plugin there has written.
func withoutNetwork(installed []nodes.PodNetwork, node string, c *corev1.NodeCondition) finding.Finding {
	f := finding.NetworkUnavailable.New("Node/"+node, "condition NetworkUnavailable: "+cmp.Or(c.Message, c.Reason))
	in := "--all-namespaces"
	if len(installed) > 0 {
		in = "-n " + installed[0].Namespace
	}
	if n := nodes.LackingNetwork(installed, node); n != nil {
		in = "-n " + n.Namespace
	}
	f.Next = "kubectl " + in + " get pods -o wide --field-selector spec.nodeName=" + node
	return f
}

// networksWithPods are DaemonSets that bring CNI plugins, those of kube-system with the pods that were kept of it.
func networksWithPods(s *Snapshot) []nodes.PodNetwork {
	list := slices.Clone(s.Networks)
	for i := range list {
		n := &list[i]
		if n.Namespace != v1alpha1.Namespace || s.Components == nil {
			continue
		}
		for _, p := range s.Components.Unready {
			if kind, name := components.Owner(&p); kind == "DaemonSet" && name == n.Name {
				n.Unready = append(n.Unready, p)
			}
		}
	}
	return list
}

// networkPods asks for the pods of CNI plugins that lack some, outside of kube-system, of which all are listed, with the warnings about them.
func (l *looking) networkPods(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	lacking := map[string][]string{} // names, by namespace
	for _, n := range s.Networks {
		if n.Ready < n.Wanted && n.Namespace != v1alpha1.Namespace && (len(lacking) < mostNetworks || lacking[n.Namespace] != nil) {
			lacking[n.Namespace] = append(lacking[n.Namespace], n.Name)
		}
	}
	for namespace, names := range lacking {
		l.events(ctx, c, eventsIn(namespace), namespace, "type=Warning", func(*corev1.Event) bool { return true })
		l.ask(podsIn(namespace), func() (func(), error) {
			ready, unready := map[string]int32{}, map[string][]corev1.Pod{}
			_, err := all(ctx, simple(c.CoreV1().Pods(namespace).List), metav1.ListOptions{}, mostNodes, func(p *corev1.Pod) bool {
				kind, name := components.Owner(p)
				switch {
				case kind != "DaemonSet" || !slices.Contains(names, name):
				case nodes.IsPodReady(p):
					ready[name]++
				case len(unready[name]) < components.MostUnready:
					trimPod(p)
					unready[name] = append(unready[name], *p)
				}
				return false
			})
			if err != nil {
				return nil, err
			}
			return func() {
				for i := range s.Networks {
					if n := &s.Networks[i]; n.Namespace == namespace && slices.Contains(names, n.Name) {
						n.Ready, n.Unready = ready[n.Name], unready[n.Name] // as of one moment
					}
				}
			}, nil
		})
	}
}

// mostNetworks bounds the namespaces whose pods are listed.
const mostNetworks = 5

// networkLogs reads the last lines of a pod of each CNI plugin that has crashed, or is not ready.
func (l *looking) networkLogs(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	for i := range s.Networks {
		for _, p := range components.Crashed(s.Networks[i].Unready, 1, s.Nodes, s.Taken) {
			l.ask("log of "+p.Name, func() (func(), error) {
				lines := nodes.Tail(ctx, c, &p, s.Taken)
				return func() { s.Components.KeepLog(p.Name, lines) }, nil
			})
		}
	}
}

// podNetworks finds pod networks of which two Nodes have the same, or that routes need and no Node has.
func podNetworks(v *view) []finding.Finding {
	var list []finding.Finding
	owners := map[string]string{}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		for _, cidr := range n.Spec.PodCIDRs {
			if first, taken := owners[cidr]; taken {
				f := finding.ID("F6").New("Node/"+n.Name, "it has pod network "+cidr+", which is Node "+first+"'s, too")
				f.Severity = finding.SeverityError
				f.Next = "kubectl get nodes -o custom-columns=NODE:.metadata.name,PODS:.spec.podCIDRs"
				list = append(list, f)
			}
			owners[cidr] = n.Name
		}
		m := v.main()
		if len(n.Spec.PodCIDRs) == 0 && m != nil && m.makesRoutes() && !nodes.IsVirtual(n) &&
			v.since(n.CreationTimestamp.Time) > time.Minute {
			f := finding.ID("F5").
				New("Node/"+n.Name, "cloud routes are on, and the Node has no pod CIDR: it gets no route, and no Event reports it")
			f.Next = "kubectl -n kube-system get configmap kubeadm-config -o yaml | grep podSubnet"
			list = append(list, f)
		}
	}
	return list
}
