package manifests

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
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
	typeOf := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind}
	}
	meta := metav1.ObjectMeta{Name: v1alpha1.EndpointPolicyName}
	return []metav1.Object{
		&admissionv1.ValidatingAdmissionPolicy{
			TypeMeta: typeOf("ValidatingAdmissionPolicy"), ObjectMeta: meta,
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: new(admissionv1.Fail),
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Update},
						Rule: admissionv1.Rule{
							APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/status"},
						},
					},
				}}},
				MatchConditions: []admissionv1.MatchCondition{{
					Name: "manager", Expression: fmt.Sprintf("request.userInfo.username in [%s]", strings.Join(users, ", ")),
				}},
				Validations: []admissionv1.Validation{{
					Expression: unchanged("metadata", "labels", "annotations", "finalizers") + " && " +
						unchanged("status", keptOfPods...),
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
			},
		},
		&admissionv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: typeOf("ValidatingAdmissionPolicyBinding"), ObjectMeta: meta,
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: v1alpha1.EndpointPolicyName, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			},
		},
	}
}

// keptOfPods are all fields of PodStatus but the conditions. A field that an API server does not know is in neither
// object.
var keptOfPods = []string{
	"allocatedResources", "containerStatuses", "ephemeralContainerStatuses", "extendedResourceClaimStatus",
	"hostIP", "hostIPs", "initContainerStatuses", "message", "nodeAllocatableResourceClaimStatuses",
	"nominatedNodeName", "observedGeneration", "phase", "podIP", "podIPs", "qosClass", "reason", "resize",
	"resourceClaimStatuses", "resources", "startTime",
}

// unchanged is an expression: fields of an object are what they were.
func unchanged(of string, fields ...string) string {
	var same []string
	for _, f := range fields {
		same = append(same, fmt.Sprintf("object.%[1]s.?%[2]s == oldObject.%[1]s.?%[2]s", of, f))
	}
	return strings.Join(same, " && ")
}
