package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// write is one without which something in a cluster does not start or does not stay. An update changes nothing; a body makes it a
// new object.
type write struct {
	what, path string
	body       any
}

// do sends it as a dry run. It is raw: typed clients of all these kinds would be 200 kB of a program that has no room for them.
func (w *write) do(ctx context.Context, client rest.Interface) error {
	request := client.Patch(types.MergePatchType).Body([]byte("{}"))
	if w.body != nil {
		body, err := json.Marshal(w.body)
		if err != nil {
			return fmt.Errorf("write %s: %w", w.what, err)
		}
		request = client.Post().SetHeader("Content-Type", "application/json").Body(body)
	}
	return request.AbsPath(w.path).Param("dryRun", metav1.DryRunAll).Do(ctx).Error()
}

// Refused asks, as dry runs, for the writes that keep a cluster alive. The error says that they could not be asked for: the user
// may not write.
func Refused(ctx context.Context, client kubernetes.Interface, cluster Cluster) ([]Refusal, error) {
	list := writes(cluster)
	errs := make([]error, len(list))
	each(len(list), func(i int) { errs[i] = list[i].do(ctx, client.Discovery().RESTClient()) })
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

// writes asks for nothing that a healthy cluster does not do by itself: the pod is one of kube-proxy, as its DaemonSet makes it.
func writes(cluster Cluster) []write {
	const core, leases = "/api/v1", "/apis/coordination.k8s.io/v1"
	list := []write{
		{what: "update of Service default/kubernetes", path: core + "/namespaces/default/services/kubernetes"},
		{what: "update of EndpointSlice default/kubernetes", path: "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"},
		{what: "update of Lease kube-system/kube-controller-manager", path: leases + "/namespaces/kube-system/leases/kube-controller-manager"},
		{what: "update of ServiceAccount default/default", path: core + "/namespaces/default/serviceaccounts/default"},
		{
			what: "new ConfigMap in kube-system", path: core + "/namespaces/kube-system/configmaps",
			body: corev1.ConfigMap{TypeMeta: kind("ConfigMap"), ObjectMeta: metav1.ObjectMeta{GenerateName: "ccmadm-doctor-"}},
		},
	}
	if node := cluster.Node; node != "" {
		list = append(list,
			write{what: "update of Node " + node, path: core + "/nodes/" + node},
			write{what: "update of the status of Node " + node, path: core + "/nodes/" + node + "/status"},
			write{what: "update of the Lease of Node " + node, path: leases + "/namespaces/kube-node-lease/leases/" + node},
		)
	}
	if cluster.Proxy != nil {
		list = append(list, write{
			what: "new pod of DaemonSet kube-proxy", path: core + "/namespaces/kube-system/pods",
			body: corev1.Pod{
				TypeMeta:   kind("Pod"),
				ObjectMeta: metav1.ObjectMeta{GenerateName: "kube-proxy-", Labels: cluster.Proxy.Labels, Annotations: cluster.Proxy.Annotations},
				Spec:       cluster.Proxy.Spec,
			},
		})
	}
	return list
}

func kind(name string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: name} }
