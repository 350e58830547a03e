package diagnosis

import (
	"context"
	"fmt"
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
	"github.com/ccmadm/ccmadm/doctor/nodes"
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
	l.wg.Wait()
	if l.answered == 0 {
		return nil, fmt.Errorf("look at the cluster: %w", &s.NotSeen[0])
	}
	l.closer(ctx, c, profiles)
	l.wg.Wait()
	slices.SortFunc(s.NotSeen, func(a, b NotSeen) int { return strings.Compare(a.What, b.What) })
	return s, nil
}

// cluster asks for the cluster's version and settings.
func (l *looking) cluster(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	l.ask(partVersion, func() (func(), error) {
		data, err := c.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx) // ServerVersion takes no context
		return func() { s.Version = gitVersion(data) }, err
	})
	config := func(what, name, key string, keep func(string)) {
		l.ask(what, func() (func(), error) {
			cm, err := c.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil, nil
			}
			return func() { keep(cm.Data[key]) }, err
		})
	}
	config(partKubeadm, "kubeadm-config", "ClusterConfiguration", func(text string) { s.Kubeadm = redactKubeadm(text) })
	config(partProxy, "kube-proxy", "config.conf", func(text string) { s.ProxyMode = proxyMode(text) })
	config(partRecord, v1alpha1.RecordName, v1alpha1.RecordKey, s.readRecord)
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
	events := func(what, namespace, selector string) {
		list(ctx, l, what, c.CoreV1().Events(namespace).List, selector, most,
			func(e *corev1.Event) bool { trimEvent(e); return true },
			func(all []corev1.Event) { s.Events = append(s.Events, all...) })
	}
	events(partEvents, v1alpha1.Namespace, "type=Warning")
	events(partDeletions, metav1.NamespaceDefault, "reason=DeletingNode")
	var external []string
	list(ctx, l, partServices, c.CoreV1().Services("").List, "", mostNodes, func(svc *corev1.Service) bool {
		if len(svc.Spec.ExternalIPs) > 0 {
			external = append(external, "Service/"+svc.Namespace+"/"+svc.Name)
		}
		trimService(svc)
		return svc.Spec.Type == corev1.ServiceTypeLoadBalancer || slices.Contains(svc.Finalizers, v1alpha1.LoadBalancerFinalizer)
	}, func(all []corev1.Service) { s.Services, s.ExternalIPs = all, external })
}

// admission reads what can refuse a write: webhooks, and unanswered certificate requests.
func (l *looking) admission(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	webhooks := c.AdmissionregistrationV1()
	list(ctx, l, partValidating, webhooks.ValidatingWebhookConfigurations().List, "", most,
		func(w *admissionv1.ValidatingWebhookConfiguration) bool { return len(validating(w)) > 0 },
		func(all []admissionv1.ValidatingWebhookConfiguration) {
			for i := range all {
				s.Webhooks = append(s.Webhooks, validating(&all[i])...)
			}
		})
	list(ctx, l, partMutating, webhooks.MutatingWebhookConfigurations().List, "", most,
		func(w *admissionv1.MutatingWebhookConfiguration) bool { return len(mutating(w)) > 0 },
		func(all []admissionv1.MutatingWebhookConfiguration) {
			for i := range all {
				s.Webhooks = append(s.Webhooks, mutating(&all[i])...)
			}
		})
	signer := "spec.signerName=" + certificatesv1.KubeletServingSignerName
	list(ctx, l, partRequests, c.CertificatesV1().CertificateSigningRequests().List, signer, mostNodes,
		func(r *certificatesv1.CertificateSigningRequest) bool {
			trimMeta(&r.ObjectMeta)
			r.Spec.Request, r.Spec.Extra = nil, nil
			return nodes.Unanswered(r)
		}, func(all []certificatesv1.CertificateSigningRequest) { s.Requests = all })
}
