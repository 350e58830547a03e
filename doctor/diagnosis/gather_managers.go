package diagnosis

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/agreement"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

// managers asks for workloads anywhere, and for the pods of kube-system.
func (l *looking) managers(ctx context.Context, c kubernetes.Interface, profiles templates.Profiles) {
	s := l.snapshot
	list(ctx, l, partDeployments, c.AppsV1().Deployments("").List, "", most,
		func(d *appsv1.Deployment) bool {
			if d.Namespace == v1alpha1.Namespace {
				l.parts.Deployment(d)
			}
			return runsManager(profiles, d.Name, &d.Spec.Template.Spec)
		},
		func(all []appsv1.Deployment) {
			for i := range all {
				trimDeployment(&all[i])
			}
			s.Deployments = all
		})
	var networks []nodes.PodNetwork
	list(ctx, l, partDaemonSets, c.AppsV1().DaemonSets("").List, "", most,
		func(d *appsv1.DaemonSet) bool {
			if d.Namespace == v1alpha1.Namespace {
				l.parts.DaemonSet(d)
			}
			if n, is := nodes.PodNetworkOf(d); is && len(networks) < most {
				networks = append(networks, n)
			}
			return runsManager(profiles, d.Name, &d.Spec.Template.Spec)
		},
		func(all []appsv1.DaemonSet) {
			for i := range all {
				trimDaemonSet(&all[i])
			}
			s.DaemonSets, s.Networks = all, networks
		})
	l.ask(partPods, func() (func(), error) { return l.pods(ctx, c, profiles, v1alpha1.Namespace) })
}

func runsManager(profiles templates.Profiles, name string, pod *corev1.PodSpec) bool {
	m, ok := profiles.Recognize(name, pod.Containers)
	return ok && !m.Agent
}

// pods keeps those of managers and of the control plane, and counts those of the name server.
func (l *looking) pods(
	ctx context.Context,
	c kubernetes.Interface,
	profiles templates.Profiles,
	namespace string,
) (func(), error) {
	s := l.snapshot
	var masters []corev1.Pod
	var dns DNS
	list, err := all(
		ctx,
		simple(c.CoreV1().Pods(namespace).List),
		metav1.ListOptions{},
		mostNodes,
		func(p *corev1.Pod) bool {
			if p.Labels["k8s-app"] == "kube-dns" {
				dns.Pods++
				if nodes.IsPodReady(p) {
					dns.Ready++
				}
			}
			if namespace == v1alpha1.Namespace {
				l.parts.Pod(p)
			}
			component := p.Labels[v1alpha1.ComponentLabel]
			if component == "kube-apiserver" || component == "kube-controller-manager" {
				trimPod(p)
				masters = append(masters, *p)
			}
			ours := component == v1alpha1.Component || runsManager(profiles, p.Name, &p.Spec)
			if ours {
				trimPod(p)
			}
			return ours
		},
	)
	return func() {
		s.Pods = append(s.Pods, list...)
		s.Masters, s.DNS = append(s.Masters, masters...), DNS{Pods: s.DNS.Pods + dns.Pods, Ready: s.DNS.Ready + dns.Ready}
	}, err
}

// closer asks the second round of questions: those that answers of the first have raised.
func (l *looking) closer(ctx context.Context, c kubernetes.Interface, profiles templates.Profiles) {
	s := l.snapshot
	events := s.Events // those of managers' namespaces are added meanwhile
	for _, namespace := range s.managerNamespaces() {
		l.events(ctx, c, eventsIn(namespace), namespace, "type=Warning", func(*corev1.Event) bool { return true })
		l.ask(podsIn(namespace), func() (func(), error) { return l.pods(ctx, c, profiles, namespace) })
	}
	l.webhooks(ctx, c)
	l.callouts(ctx, c)
	l.balancing(ctx, c)
	if m := newView(s).main(); s.Provider == onprem || m != nil && m.Profile != nil && m.Profile.Name == onprem {
		l.inventory(ctx, c)
		l.pools(ctx, c)
	}
	l.networkPods(ctx, c)
	l.unreadyLogs(ctx, c)
	l.ask("pods without a sandbox", func() (func(), error) {
		list, err := components.Sandboxes(ctx, c, events, s.Taken)
		return func() { s.Components.Sandboxes = list }, err
	})
	l.wg.Wait()
	l.networkLogs(ctx, c)
	f := newView(s).facts
	statuses := f.Statuses(nil)
	// beside other writes: a webhook about everything that hangs holds up those as well, for as long as ctx lasts
	l.tryCallouts(ctx, c)
	l.requests(ctx, c)
	l.settings(ctx, c)
	l.ask(partReviews, func() (func(), error) {
		f.AskLease(ctx, c)
		f.AskPods(ctx, c)
		return func() { s.keepFacts(f) }, nil
	})
	l.ask("flags of kubelets", func() (func(), error) {
		answers := nodes.AskKubelets(ctx, c, statuses, s.Heartbeats)
		return func() { s.Answers = answers }, nil
	})
}

// settings asks some of the kubelets that work what they run with.
func (l *looking) settings(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	if p := l.parts.ProxyPod(); p != nil && len(p.Spec.Containers) > 0 {
		s.Settings.ProxyImage = finding.Clean(templates.OwnContainer(&p.Spec, components.Proxy).Image)
	}
	if s.Kubeadm == "" {
		return
	}
	names := kubeletsToAsk(s.Nodes)
	l.ask(partKubelets, func() (func(), error) {
		told, err := agreement.AskKubelets(ctx, c.Discovery().RESTClient(), names)
		return func() { s.Settings.Kubelets = told }, err
	})
}

// kubeletsToAsk names Nodes whose kubelets work: those of all control planes, and of many others some from each part of the list, since
// names follow pools and sites.
func kubeletsToAsk(all []corev1.Node) []string {
	var names, others []string
	for i := range all {
		switch n := &all[i]; {
		case !nodestatus.IsReady(n) || nodes.IsVirtual(n):
		case nodes.IsControlPlane(n):
			names = append(names, n.Name)
		default:
			others = append(others, n.Name)
		}
	}
	room := min(max(agreement.MostKubelets-len(names), 0), len(others))
	for i := range room {
		names = append(names, others[i*len(others)/room])
	}
	return names
}

// crashed bounds the pods of components whose log is read.
const crashed = 4

// unreadyLogs reads the last lines of pods of kube-system that have crashed, or are not ready.
func (l *looking) unreadyLogs(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	s.Components = l.parts.Seen(s.Nodes)
	pods := s.Components.Crashed(crashed, s.Nodes, s.Taken)
	if p := s.Components.EtcdLog(); p != nil && s.Kubeadm != "" {
		l.ask("log of "+p.Name, func() (func(), error) {
			lines := nodes.Lately(ctx, c, p, components.EtcdLogged)
			return func() { s.Components.KeepLog(p.Name, lines) }, nil
		})
	}
	for _, p := range pods {
		l.ask("log of "+p.Name, func() (func(), error) {
			lines := nodes.Tail(ctx, c, &p, s.Taken)
			return func() { s.Components.KeepLog(p.Name, lines) }, nil
		})
	}
}

// keepFacts takes over what was asked about the manager.
func (s *Snapshot) keepFacts(f *nodes.Facts) {
	s.LeaseName, s.Reviews = f.LeaseName, f.Reviews
	s.Logs = map[string][]string{}
	for pod, lines := range f.Logs {
		if len(lines) > 0 { // a key may stand on several lines
			s.Logs[pod] = strings.Split(redact.Text(strings.Join(lines, "\n")), "\n")
		}
	}
	if len(s.Reviews) > 0 && !slices.ContainsFunc(s.Reviews, func(r nodes.Review) bool { return r.Answer != "unknown" }) {
		s.NotSeen = append(
			s.NotSeen,
			NotSeen{What: partReviews, Message: "the API server does not report the permissions of the cloud-controller-manager"},
		)
	}
	if !f.Renewed.IsZero() {
		renewed := f.Renewed.UTC()
		s.Renewed = &renewed
	}
	if f.LeaseErr != nil && f.LeaseNamespace != v1alpha1.Namespace { // no list of Leases has it
		s.NotSeen = append(s.NotSeen, Unseen(leasesIn(f.LeaseNamespace), f.LeaseErr))
	}
	if f.Lease == nil {
		return
	}
	lease := f.Lease.DeepCopy()
	trimLease(lease)
	s.Leases = slices.DeleteFunc(s.Leases, func(l coordinationv1.Lease) bool {
		return l.Namespace == lease.Namespace && l.Name == lease.Name
	})
	s.Leases = append(s.Leases, *lease)
}

// managerNamespaces are those of managers outside of kube-system.
func (s *Snapshot) managerNamespaces() []string {
	var list []string
	add := func(namespace string) {
		if namespace != v1alpha1.Namespace && !slices.Contains(list, namespace) && len(list) < 5 {
			list = append(list, namespace)
		}
	}
	for _, d := range s.Deployments {
		add(d.Namespace)
	}
	for _, d := range s.DaemonSets {
		add(d.Namespace)
	}
	return list
}

// gitVersion reads what the API server answers at /version.
func gitVersion(data []byte) string {
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return ""
	}
	return finding.Clean(v.GitVersion)
}

// balancing asks for warnings about Services that wait, where there are some.
func (l *looking) balancing(ctx context.Context, c kubernetes.Interface) {
	s, waits := l.snapshot, map[string]bool{}
	for i := range s.Services {
		if svc := &s.Services[i]; svc.DeletionTimestamp != nil || s.waitsForBalancer(svc) {
			waits[svc.Namespace+"/"+svc.Name] = true
		}
	}
	if len(waits) == 0 {
		return
	}
	l.events(ctx, c, partBalancing, metav1.NamespaceAll, "involvedObject.kind=Service,type=Warning",
		func(e *corev1.Event) bool { return waits[e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name] })
}
