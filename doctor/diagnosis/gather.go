package diagnosis

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/agreement"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/requests"
	"github.com/ccmadm/ccmadm/templates"
)

// Gather looks at a cluster once: one list for each resource and namespace, in pages, at most for as long as ctx lasts.
// What it may not see, or was too slow, is in NotSeen; the error says that nothing could be seen.
func Gather(ctx context.Context, c kubernetes.Interface) (*Snapshot, error) {
	s := &Snapshot{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind}, Taken: time.Now().UTC()}
	l := newLooking(s)
	profiles := templates.Known()
	l.cluster(ctx, c)
	l.perNode(ctx, c)
	l.managers(ctx, c, profiles)
	l.besides(ctx, c)
	l.admission(ctx, c)
	l.ask(partServiceNets, func() (func(), error) {
		all, err := agreement.AskServiceCIDRs(ctx, c.Discovery().RESTClient())
		return func() { s.Settings.ServiceCIDRs = all }, err
	})
	l.ask(partDefinitions, func() (func(), error) { return nil, l.calls.Definitions(ctx, c.Discovery().RESTClient()) })
	l.wg.Wait()
	if l.answered == 0 {
		return nil, fmt.Errorf("look at the cluster: %w", &s.NotSeen[0])
	}
	l.closer(ctx, c, profiles)
	l.wg.Wait()
	slices.SortStableFunc(s.NotSeen, func(a, b NotSeen) int { return strings.Compare(a.What, b.What) })
	return s, nil
}

// cluster asks for the cluster's version and settings.
func (l *looking) cluster(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	l.ask(partVersion, func() (func(), error) {
		data, err := c.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx) // ServerVersion takes no context
		return func() { s.Version = gitVersion(data) }, err
	})
	for _, read := range l.configurations() {
		l.ask(read.part, func() (func(), error) {
			cm, err := c.CoreV1().ConfigMaps(read.namespace).Get(ctx, read.name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return l.missing(ctx, c, read), nil
			}
			if err != nil {
				return nil, err
			}
			return func() {
				text := cm.Data[read.key]
				read.keep(text)
				s.Settings.Take(read.namespace+"/"+read.name, cm.Data)
				if read.workload != "" {
					l.parts.Configured(read.workload)
				}
				if problem := read.problem(text); problem != "" {
					s.configurationLacks(read, problem)
				}
			}, nil
		})
	}
}

// configuration is a ConfigMap with a document that something reads when it starts.
type configuration struct {
	part, namespace, name, key string
	keep                       func(text string)
	// kind is that of the document. Empty: it is not judged here.
	kind string
	// workload reads it: without the workload, it may be missing. Empty: kubeadm reads it.
	workload string
}

func (l *looking) configurations() []configuration {
	s := l.snapshot
	none := func(string) {}
	return []configuration{
		{partKubeadm, v1alpha1.Namespace, "kubeadm-config", "ClusterConfiguration", func(text string) { s.Kubeadm = redactKubeadm(text) }, "ClusterConfiguration", ""},
		{partKubelet, v1alpha1.Namespace, "kubelet-config", "kubelet", func(text string) { s.ClusterDNS = kubeletDNS(text) }, "KubeletConfiguration", ""},
		{partClusterInfo, metav1.NamespacePublic, "cluster-info", "kubeconfig", none, "Config", ""},
		{partProxy, v1alpha1.Namespace, "kube-proxy", "config.conf", func(text string) { s.ProxyMode = proxyMode(text) }, "KubeProxyConfiguration", components.Proxy},
		{partCorefile, v1alpha1.Namespace, "coredns", "Corefile", none, "Corefile", components.DNS},
		{partRecord, v1alpha1.Namespace, v1alpha1.RecordName, v1alpha1.RecordKey, s.readRecord, "", ""},
	}
}

// publicInfo lets machines without a name read cluster-info.
const publicInfo = "RoleBinding/kube-public/kubeadm:bootstrap-signer-clusterinfo"

// missing keeps that a ConfigMap does not exist. Without its binding, cluster-info was taken away on purpose.
func (l *looking) missing(ctx context.Context, c kubernetes.Interface, read configuration) func() {
	if read.part == partClusterInfo {
		if bound, err := requests.Bound(ctx, c, publicInfo); err != nil || !bound {
			return nil
		}
	}
	return func() {
		l.snapshot.configurationLacks(read, "it does not exist, and has "+read.key+" of "+read.reader())
	}
}

// reader is what cannot start, or cannot do its work, without the document.
func (c *configuration) reader() string {
	if c.workload != "" {
		return c.workload
	}
	return "kubeadm join and kubeadm upgrade"
}

// ofKubernetes are the plugins of a Corefile that answer for names of Services; what another file has is not known.
var ofKubernetes = regexp.MustCompile(`(?m)^\s*(kubernetes|kubernetai|import)\s`)

// problem says why the document cannot be used; empty: it can.
func (c *configuration) problem(text string) string {
	var read struct {
		Kind string `json:"kind"`
	}
	switch {
	case c.kind == "":
		return ""
	case text == "":
		return "it has no key " + c.key
	case c.kind == "Corefile":
		if !ofKubernetes.MatchString(text) {
			return "its Corefile has no plugin kubernetes: names of Services do not resolve"
		}
		return ""
	}
	if err := yaml.Unmarshal([]byte(text), &read); err != nil {
		return "its key " + c.key + " is not YAML"
	}
	if read.Kind != c.kind {
		return fmt.Sprintf("its key %s has kind %q, want %s", c.key, finding.Clean(read.Kind), c.kind)
	}
	return ""
}

// configurationLacks keeps what is wrong with a ConfigMap that is judged.
func (s *Snapshot) configurationLacks(c configuration, problem string) {
	if c.kind != "" {
		s.Configurations = append(s.Configurations, Configuration{"ConfigMap/" + c.namespace + "/" + c.name, problem, c.workload})
	}
}

// kubeletDNS is the first address of a KubeletConfiguration's clusterDNS.
func kubeletDNS(text string) string {
	var c struct {
		ClusterDNS []string `json:"clusterDNS"`
	}
	if err := yaml.Unmarshal([]byte(text), &c); err != nil || len(c.ClusterDNS) == 0 {
		return ""
	}
	return finding.Clean(c.ClusterDNS[0])
}

// requests asks what the API server would not serve, of a cluster of kubeadm: others grant and run what they want.
func (l *looking) requests(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	if s.Kubeadm == "" || l.lacks(partNodes) {
		return
	}
	cluster := requests.Cluster{Minor: minorOf(s.Version), RunsAs: s.Components.RunsAs, Proxy: l.parts.ProxyPod()}
	for i := range s.Nodes {
		if nodes.IsControlPlane(&s.Nodes[i]) || cluster.Node == "" {
			cluster.Node = s.Nodes[i].Name
		}
	}
	s.Served = &requests.Seen{}
	l.ask(partPermissions, func() (func(), error) {
		denied, err := requests.Denied(ctx, c, cluster)
		return func() { s.Served.Denied = denied }, err
	})
	l.ask(partWrites, func() (func(), error) {
		refused, err := requests.Refused(ctx, c, cluster)
		return func() { s.Served.Refused = refused }, err
	})
	l.ask(partExtensions, func() (func(), error) {
		unavailable, err := requests.Extensions(ctx, c)
		return func() { s.Served.Unavailable = unavailable }, err
	})
}

// proxyMode is the mode of a KubeProxyConfiguration. What cannot be read has none.
func proxyMode(text string) string {
	var c struct {
		Mode string `json:"mode"`
	}
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return ""
	}
	return finding.Clean(c.Mode)
}

// readRecord takes what detectors ask of the record. Besides that it is said, one that cannot be read is as none.
func (s *Snapshot) readRecord(text string) {
	rec, err := state.DecodeRecord(v1alpha1.RecordName, []byte(text))
	if err != nil {
		s.RecordMisread = NewMisread(err, "if it was edited by hand: kubectl -n "+
			v1alpha1.Namespace+" edit configmap "+v1alpha1.RecordName)
		return
	}
	s.Provider, s.Mode = rec.Configuration.Provider, string(rec.Configuration.Mode)
	manager := rec.Configuration.ControllerManager
	s.Image, s.OwnArguments = manager.Image, len(manager.ExtraArgs) > 0
	load := func() (*templates.Profile, error) { return templates.Load(rec.Configuration.Provider) }
	if rec.Profile != "" {
		load = func() (*templates.Profile, error) {
			return templates.Parse("the cluster's record", []byte(rec.Profile))
		}
	}
	if p, err := load(); err == nil {
		s.LeaseName = p.LeaseName()
	}
}

func (l *looking) perNode(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	list(ctx, l, partNodes, c.CoreV1().Nodes().List, "", mostNodes,
		func(n *corev1.Node) bool { trimNode(n); return true }, func(all []corev1.Node) { s.Nodes = all })
	leases := c.CoordinationV1().Leases
	every := func(x *coordinationv1.Lease) bool { trimLease(x); return true }
	list(ctx, l, partHeartbeats, leases(corev1.NamespaceNodeLease).List, "", mostNodes, every,
		func(all []coordinationv1.Lease) { s.Heartbeats = all })
	list(ctx, l, partLeases, leases(v1alpha1.Namespace).List, "", mostNodes, every,
		func(all []coordinationv1.Lease) { s.Leases = all })
}

// besides asks for what hangs on managers, and what managers hang on.
func (l *looking) besides(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	each := func(*corev1.Event) bool { return true }
	l.events(ctx, c, partEvents, v1alpha1.Namespace, "type=Warning", each)
	l.events(ctx, c, partDeletions, metav1.NamespaceDefault, "reason=DeletingNode", each)
	l.events(ctx, c, partSandboxes, metav1.NamespaceAll, "reason="+components.NoSandbox,
		func(e *corev1.Event) bool { return components.Lately(e, s.Taken) })
	var external []string
	list(ctx, l, partServices, c.CoreV1().Services("").List, "", mostNodes, func(svc *corev1.Service) bool {
		if len(svc.Spec.ExternalIPs) > 0 {
			external = append(external, "Service/"+svc.Namespace+"/"+svc.Name)
		}
		l.parts.Served(svc)
		l.calls.Service(svc)
		trimService(svc)
		return svc.Spec.Type == corev1.ServiceTypeLoadBalancer || slices.Contains(svc.Finalizers, v1alpha1.LoadBalancerFinalizer)
	}, func(all []corev1.Service) {
		s.Services, s.ExternalIPs = all, external
		l.calls.ServicesListed()
	})
	l.served(ctx, c)
}

// served counts the endpoints of the Services that every cluster depends on.
func (l *looking) served(ctx context.Context, c kubernetes.Interface) {
	for _, service := range components.Depended() {
		l.ask("endpoints of Service/"+service.String(), func() (func(), error) {
			all, err := slicesOf(ctx, c, service)
			if err != nil {
				return nil, err
			}
			return func() { l.parts.Endpoints(service, all) }, nil
		})
	}
}

// admission reads what can refuse a write: webhooks, and unanswered certificate requests.
func (l *looking) admission(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	webhooks, system := c.AdmissionregistrationV1(), l.labelsOfSystem(ctx, c)
	list(ctx, l, partValidating, webhooks.ValidatingWebhookConfigurations().List, "", most,
		func(w *admissionv1.ValidatingWebhookConfiguration) bool {
			l.calls.Validating(w)
			return len(validating(w, system)) > 0
		},
		func(all []admissionv1.ValidatingWebhookConfiguration) {
			for i := range all {
				s.Webhooks = append(s.Webhooks, validating(&all[i], system)...)
			}
		})
	list(ctx, l, partMutating, webhooks.MutatingWebhookConfigurations().List, "", most,
		func(w *admissionv1.MutatingWebhookConfiguration) bool {
			l.calls.Mutating(w)
			return len(mutating(w, system)) > 0
		},
		func(all []admissionv1.MutatingWebhookConfiguration) {
			for i := range all {
				s.Webhooks = append(s.Webhooks, mutating(&all[i], system)...)
			}
		})
	serving := func(r *certificatesv1.CertificateSigningRequest) bool {
		return nodes.Unanswered(r) && r.Spec.SignerName == certificatesv1.KubeletServingSignerName
	}
	list(ctx, l, partRequests, c.CertificatesV1().CertificateSigningRequests().List, "", mostNodes,
		func(r *certificatesv1.CertificateSigningRequest) bool {
			trimMeta(&r.ObjectMeta)
			r.Spec.Request, r.Spec.Extra = nil, nil
			return serving(r) || components.Undone(r)
		}, func(all []certificatesv1.CertificateSigningRequest) {
			for _, r := range all {
				if serving(&r) {
					s.Requests = append(s.Requests, r)
				} else {
					s.Undone = append(s.Undone, r)
				}
			}
		})
}
