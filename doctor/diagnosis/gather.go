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
	config(partRecord, v1alpha1.RecordName, v1alpha1.RecordKey, s.readRecord)
}

// readRecord takes what detectors ask of the record. Besides that it is said, one that cannot be read is as none.
func (s *Snapshot) readRecord(text string) {
	rec, err := v1alpha1.DecodeRecord(v1alpha1.RecordName, []byte(text))
	if err != nil {
		s.RecordMisread = NewMisread(err, "use the ccmadm that has written it; where somebody has edited it: kubectl -n "+
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
	l.ask(partNodes, func() (func(), error) {
		list, err := all(ctx, simple(c.CoreV1().Nodes().List), metav1.ListOptions{}, mostNodes,
			func(n *corev1.Node) bool { trimNode(n); return true })
		return func() { s.Nodes = list }, err
	})
	leases := func(what, namespace string, keep func([]coordinationv1.Lease)) {
		l.ask(what, func() (func(), error) {
			list, err := all(ctx, simple(c.CoordinationV1().Leases(namespace).List), metav1.ListOptions{}, mostNodes,
				func(x *coordinationv1.Lease) bool { trimLease(x); return true })
			return func() { keep(list) }, err
		})
	}
	leases(partHeartbeats, corev1.NamespaceNodeLease, func(list []coordinationv1.Lease) { s.Heartbeats = list })
	leases(partLeases, v1alpha1.Namespace, func(list []coordinationv1.Lease) { s.Leases = list })
}

// besides asks for what hangs on managers, and what managers hang on.
func (l *looking) besides(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	events := func(what, namespace, selector string) {
		l.ask(what, func() (func(), error) {
			list, err := all(ctx, simple(c.CoreV1().Events(namespace).List), metav1.ListOptions{FieldSelector: selector}, most,
				func(e *corev1.Event) bool { trimEvent(e); return true })
			return func() { s.Events = append(s.Events, list...) }, err
		})
	}
	events(partEvents, v1alpha1.Namespace, "type=Warning")
	events(partDeletions, metav1.NamespaceDefault, "reason=DeletingNode")
	l.ask(partServices, func() (func(), error) {
		list, err := all(
			ctx,
			simple(c.CoreV1().Services("").List),
			metav1.ListOptions{},
			mostNodes,
			func(svc *corev1.Service) bool {
				trimService(svc)
				return svc.Spec.Type == corev1.ServiceTypeLoadBalancer ||
					slices.Contains(svc.Finalizers, v1alpha1.LoadBalancerFinalizer)
			},
		)
		return func() { s.Services = list }, err
	})
}

// admission reads what can refuse a write: webhooks, and unanswered certificate requests.
func (l *looking) admission(ctx context.Context, c kubernetes.Interface) {
	s := l.snapshot
	l.ask(partValidating, func() (func(), error) {
		list, err := all(
			ctx,
			simple(c.AdmissionregistrationV1().ValidatingWebhookConfigurations().List),
			metav1.ListOptions{},
			most,
			func(w *admissionv1.ValidatingWebhookConfiguration) bool { return len(validating(w)) > 0 },
		)
		return func() {
			for i := range list {
				s.Webhooks = append(s.Webhooks, validating(&list[i])...)
			}
		}, err
	})
	l.ask(partMutating, func() (func(), error) {
		list, err := all(
			ctx,
			simple(c.AdmissionregistrationV1().MutatingWebhookConfigurations().List),
			metav1.ListOptions{},
			most,
			func(w *admissionv1.MutatingWebhookConfiguration) bool { return len(mutating(w)) > 0 },
		)
		return func() {
			for i := range list {
				s.Webhooks = append(s.Webhooks, mutating(&list[i])...)
			}
		}, err
	})
	l.ask(partRequests, func() (func(), error) {
		selector := "spec.signerName=" + certificatesv1.KubeletServingSignerName
		list, err := all(
			ctx,
			simple(c.CertificatesV1().CertificateSigningRequests().List),
			metav1.ListOptions{FieldSelector: selector},
			mostNodes,
			func(r *certificatesv1.CertificateSigningRequest) bool {
				trimMeta(&r.ObjectMeta)
				r.Spec.Request, r.Spec.Extra = nil, nil
				return nodes.Unanswered(r)
			},
		)
		return func() { s.Requests = list }, err
	})
}
