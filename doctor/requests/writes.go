package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
)

// write is one without which something in a cluster does not start or does not stay, as the user that does it. An update changes
// nothing; a body makes it a new object.
type write struct {
	what, path string
	body       any
	user       string
	groups     []string
}

// patience bounds a review and a dry run: a webhook may take 30 s to say nothing.
const patience = 5 * time.Second

// do sends it as a dry run. It is raw: typed clients of all these kinds would be 200 kB of a program that has no room for them.
func (w *write) do(ctx context.Context, client rest.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request := client.Patch(types.MergePatchType).Body([]byte("{}"))
	if w.body != nil {
		body, err := json.Marshal(w.body)
		if err != nil {
			return fmt.Errorf("write %s: %w", w.what, err)
		}
		request = client.Post().SetHeader("Content-Type", "application/json").Body(body)
	}
	return request.AbsPath(w.path).Param("dryRun", metav1.DryRunAll).SetHeader("Impersonate-User", w.user).
		SetHeader("Impersonate-Group", w.groups...).Do(ctx).Error()
}

// Refused asks, as dry runs, for writes that keep a cluster alive, each in the name of the component that does it: policies differ by
// user. The error says that some could not be asked for, such as where the user may not act for others.
func Refused(ctx context.Context, client kubernetes.Interface, cluster Cluster) ([]Refusal, error) {
	list := writes(cluster)
	errs := make([]error, len(list))
	each(len(list), func(i int) { errs[i] = list[i].do(ctx, client.Discovery().RESTClient()) })
	var refused []Refusal
	var unknown error
	for i, err := range errs {
		switch {
		case err == nil || apierrors.IsNotFound(err):
		case byAdmission(err):
			refused = append(refused, Refusal{Write: list[i].what, Message: messageOf(err)})
		case unknown == nil:
			unknown = err
		}
	}
	return refused, unknown
}

// messageOf is what the API server says, without credentials that a policy's or webhook's words may have.
func messageOf(err error) string {
	return finding.Clean(redact.Text(strings.TrimPrefix(err.Error(), "Internal error occurred: ")))
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

// writes are what API servers and kubelets do all the time, and what the controller of kube-proxy's DaemonSet does when a Node is new.
func writes(cluster Cluster) []write {
	server := []string{"system:masters", "system:authenticated"}
	list := []write{
		{"update of Service default/kubernetes", "/api/v1/namespaces/default/services/kubernetes", nil, "system:apiserver", server},
		{"update of its EndpointSlice", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", nil, "system:apiserver", server},
	}
	if node := cluster.Node; node != "" {
		user, groups := "system:node:"+node, []string{"system:nodes", "system:authenticated"}
		list = append(list,
			write{"update of Node " + node, "/api/v1/nodes/" + node, nil, user, groups},
			write{"update of the status of Node " + node, "/api/v1/nodes/" + node + "/status", nil, user, groups},
			write{"update of the Lease of Node " + node, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/" + node, nil, user, groups},
		)
	}
	if cluster.Proxy != nil {
		pod := *cluster.Proxy
		pod.APIVersion, pod.Kind, pod.GenerateName = "v1", "Pod", "kube-proxy-"
		controller := Grant{Component: "daemon-set-controller"}
		list = append(list, write{"new pod of DaemonSet kube-proxy", "/api/v1/namespaces/kube-system/pods", pod, controller.user(), controller.groups()})
	}
	return list
}
