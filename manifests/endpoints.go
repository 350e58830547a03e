package manifests

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// onlyNotReady returns the policy by which the manager of onprem takes pods on a machine that is gone out of Services,
// and writes nothing else of them: permission to patch the status of pods alone would let it say where a pod is, so
// where Services send, and that one has failed.
func onlyNotReady(who []rbacv1.Subject) []metav1.Object {
	var users []string
	for _, s := range who {
		name := s.Name
		if s.Kind == rbacv1.ServiceAccountKind {
			name = "system:serviceaccount:" + s.Namespace + ":" + s.Name
		}
		users = append(users, "'"+name+"'")
	}
	return admissionPolicy(v1alpha1.EndpointPolicyName, admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
			onResources("", "v1", []string{"pods/status"}, admissionv1.Update),
		}},
		MatchConditions: []admissionv1.MatchCondition{{
			Name: "manager", Expression: fmt.Sprintf("request.userInfo.username in [%s]", strings.Join(users, ", ")),
		}},
		Validations: []admissionv1.Validation{{
			Expression: unchanged("metadata", "labels", "annotations", "finalizers") + " && " +
				unchanged("status", keptOfPods()...),
			Message: "the cloud-controller-manager changes no more of a pod than its condition Ready",
			Reason:  new(metav1.StatusReasonForbidden),
		}, {
			Expression: "object.status.?conditions.orValue([]).all(c, c.type == 'Ready' && c.status == 'False' || " +
				"oldObject.status.?conditions.orValue([]).exists(o, o == c)) && " +
				"oldObject.status.?conditions.orValue([]).all(o, " +
				"object.status.?conditions.orValue([]).exists(c, c.type == o.type))",
			Message: "the cloud-controller-manager says that a pod is not Ready, and nothing else of it",
			Reason:  new(metav1.StatusReasonForbidden),
		}},
	})
}

// keptOfPods are all fields of PodStatus but the conditions, as the newest Kubernetes that ccmadm knows has them. A field
// that an API server does not know is in neither object.
func keptOfPods() []string {
	var fields []string
	for f := range reflect.TypeFor[corev1.PodStatus]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "conditions" {
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	return fields
}

// unchanged is an expression: fields of an object are what they were.
func unchanged(of string, fields ...string) string {
	var same []string
	for _, f := range fields {
		same = append(same, fmt.Sprintf("object.%[1]s.?%[2]s == oldObject.%[1]s.?%[2]s", of, f))
	}
	return strings.Join(same, " && ")
}
