package requests

import (
	"context"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// write is one without which something in a cluster does not start or does not stay.
type write struct {
	what string
	do   func(ctx context.Context) error
}

// Refused asks, as dry runs, for the writes that keep a cluster alive. The error says that they could not be asked for: the user
// may not write.
func Refused(ctx context.Context, client kubernetes.Interface, cluster Cluster) ([]Refusal, error) {
	list := writes(client, cluster)
	errs := make([]error, len(list))
	each(len(list), func(i int) { errs[i] = list[i].do(ctx) })
	var refused []Refusal
	for i, err := range errs {
		switch {
		case err == nil || apierrors.IsNotFound(err):
		case byAdmission(err):
			refused = append(refused, Refusal{Write: list[i].what, Message: messageOf(err)})
		default:
			return refused, err
		}
	}
	return refused, nil
}

// messageOf is what the API server says, and a client has not added to.
func messageOf(err error) string {
	return strings.TrimPrefix(err.Error(), "Internal error occurred: ")
}

// byRBAC are the words of the API server's authorizer (k8s.io/apiserver endpoints/handlers/responsewriters/errors.go).
var byRBAC = regexp.MustCompile(`is forbidden: User "|^forbidden: User "`)

// byAdmission tells whether admission refused a write, and not what stands before it: authorization, the rate of requests, time.
func byAdmission(err error) bool {
	text := err.Error()
	if strings.Contains(text, "does not support dry run") { // the webhook has effects of its own, and is not called
		return false
	}
	switch {
	case apierrors.IsForbidden(err):
		return !byRBAC.MatchString(text)
	case apierrors.IsInternalError(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return strings.Contains(text, "webhook") || strings.Contains(text, "Admission") || strings.Contains(text, "admission")
	}
	return false
}

// writes asks nothing of its own: updates change nothing, and the pod is one of kube-proxy, as the controller of its DaemonSet makes it.
func writes(client kubernetes.Interface, cluster Cluster) []write {
	core, leases, dry := client.CoreV1(), client.CoordinationV1(), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
	const merge, kubernetesService = types.MergePatchType, "kubernetes"
	unchanged := []byte("{}")
	list := []write{
		{"update of Service default/kubernetes", func(ctx context.Context) error {
			_, err := core.Services(metav1.NamespaceDefault).Patch(ctx, kubernetesService, merge, unchanged, dry)
			return err
		}},
		{"update of EndpointSlice default/kubernetes", func(ctx context.Context) error {
			_, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Patch(ctx, kubernetesService, merge, unchanged, dry)
			return err
		}},
		{"update of Lease kube-system/kube-controller-manager", func(ctx context.Context) error {
			_, err := leases.Leases(system).Patch(ctx, "kube-controller-manager", merge, unchanged, dry)
			return err
		}},
		{"update of ServiceAccount default/default", func(ctx context.Context) error {
			_, err := core.ServiceAccounts(metav1.NamespaceDefault).Patch(ctx, "default", merge, unchanged, dry)
			return err
		}},
		{"new ConfigMap in kube-system", func(ctx context.Context) error {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "ccmadm-doctor-"}}
			_, err := core.ConfigMaps(system).Create(ctx, cm, metav1.CreateOptions{DryRun: dry.DryRun})
			return err
		}},
	}
	if node := cluster.Node; node != "" {
		list = append(list,
			write{"update of Node " + node, func(ctx context.Context) error {
				_, err := core.Nodes().Patch(ctx, node, merge, unchanged, dry)
				return err
			}},
			write{"update of the status of Node " + node, func(ctx context.Context) error {
				_, err := core.Nodes().Patch(ctx, node, merge, unchanged, dry, "status")
				return err
			}},
			write{"update of the Lease of Node " + node, func(ctx context.Context) error {
				_, err := leases.Leases(corev1.NamespaceNodeLease).Patch(ctx, node, merge, unchanged, dry)
				return err
			}},
		)
	}
	if cluster.Proxy != nil {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "kube-proxy-", Labels: cluster.Proxy.Labels, Annotations: cluster.Proxy.Annotations},
			Spec:       *cluster.Proxy.Spec.DeepCopy(),
		}
		list = append(list, write{"new pod of DaemonSet kube-proxy", func(ctx context.Context) error {
			_, err := core.Pods(system).Create(ctx, pod, metav1.CreateOptions{DryRun: dry.DryRun})
			return err
		}})
	}
	return list
}
