package manifests

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// admissionPolicy returns a policy that refuses what it cannot evaluate, too, and the binding by which it holds in the
// whole cluster.
func admissionPolicy(name string, spec admissionv1.ValidatingAdmissionPolicySpec) []metav1.Object {
	typeOf := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind}
	}
	spec.FailurePolicy = new(admissionv1.Fail)
	return []metav1.Object{
		&admissionv1.ValidatingAdmissionPolicy{
			TypeMeta: typeOf("ValidatingAdmissionPolicy"), ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
		},
		&admissionv1.ValidatingAdmissionPolicyBinding{
			TypeMeta: typeOf("ValidatingAdmissionPolicyBinding"), ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			},
		},
	}
}

// onResources is what a policy of one group of the API looks at.
func onResources(group, version string, resources []string, operations ...admissionv1.OperationType,
) admissionv1.NamedRuleWithOperations {
	return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources,
		},
	}}
}

// nodePortsPolicy returns the policy that keeps reserved ports of the Nodes from a Service whose status has the Nodes'
// addresses: kube-proxy takes the ports of an edit on every Node before the cloud-controller-manager has seen it. What
// is created has no addresses yet, and gets none with such a port. The addresses of Nodes are known by the condition,
// which only our manager sets and takes away with the load balancer, and by the ports beside them: addresses of pools
// have none.
func nodePortsPolicy() []metav1.Object {
	const given = "oldObject.?status.?loadBalancer.?ingress.orValue([])"
	refused := "is reserved on the Nodes, whose addresses the Service has: " + finding.PortReserved.Kind().Do
	var reserved []string
	for _, r := range v1alpha1.ReservedNodePorts() {
		text := fmt.Sprintf("p.port >= %d && p.port <= %d", r.First, r.Last)
		if r.Protocol != "" {
			text += fmt.Sprintf(" && p.protocol == '%s'", r.Protocol)
		}
		reserved = append(reserved, text)
	}
	return admissionPolicy(v1alpha1.NodePortsPolicyName, admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
			onResources("", "v1", []string{"services"}, admissionv1.Update),
		}},
		MatchConditions: []admissionv1.MatchCondition{
			{Name: "load-balancer", Expression: "object.spec.type == 'LoadBalancer'"},
			{
				Name: "ours",
				Expression: "oldObject.?status.?conditions.orValue([]).exists(c, c.type == '" +
					v1alpha1.LoadBalancerReady + "')",
			},
			{
				Name: "addresses-of-nodes",
				Expression: given + ".exists(i, i.?ipMode.orValue('VIP') == 'VIP' && " +
					"i.?ports.orValue([]).size() > 0)",
			},
		},
		Variables: []admissionv1.Variable{
			{
				Name: "any", // tenants write no labels of Namespaces
				Expression: "object.metadata.?annotations.orValue({})[?'" + v1alpha1.PortsAnnotation + "'].orValue('') == 'any' && " +
					"namespaceObject.metadata.?labels.orValue({})[?'" + v1alpha1.PortsLabel + "'].orValue('') == 'allow'",
			},
			{
				Name:       "reserved",
				Expression: "object.spec.?ports.orValue([]).filter(p, " + strings.Join(reserved, " || ") + ")",
			},
			{
				Name: "taken", // which it has not already
				Expression: "variables.reserved.filter(p, !" + given + ".exists(i, i.?ports.orValue([]).exists(q, " +
					"q.port == p.port && q.protocol == p.protocol)) && !oldObject.spec.?ports.orValue([]).exists(q, " +
					"q.port == p.port && q.protocol == p.protocol))",
			},
		},
		Validations: []admissionv1.Validation{{
			Expression:        "variables.any || variables.taken.size() == 0",
			MessageExpression: "'port ' + string(variables.taken[0].port) + ' " + refused + "'",
			Message:           "a port " + refused,
			Reason:            new(metav1.StatusReasonForbidden),
		}},
	})
}

// externalIPsPolicy returns the policy that denies Services new externalIPs (CVE-2020-8554): kube-proxy of every Node
// sends packets for them to the Service, also those for the control plane's address. An update may keep what the Service
// has. A label on the Namespace, which tenants do not write, permits all.
func externalIPsPolicy() []metav1.Object {
	const had = "(oldObject == null ? [] : oldObject.spec.?externalIPs.orValue([]))"
	// Most who meet the policy have a Gateway, whose implementation has written the field.
	const denied = "denied unless the Namespace has label " + v1alpha1.ExternalIPsLabel + "=allow. To get an address of an AddressPool, " +
		"set annotation " + v1alpha1.AddressesAnnotation + " on the LoadBalancer Service instead; for a Gateway, in " +
		"spec.infrastructure.annotations instead of spec.addresses"
	return admissionPolicy(v1alpha1.ExternalIPsPolicyName, admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
			onResources("", "v1", []string{"services"}, admissionv1.Create, admissionv1.Update),
		}},
		MatchConditions: []admissionv1.MatchCondition{
			{Name: "external-ips", Expression: "object.spec.?externalIPs.orValue([]).size() > 0"},
		},
		Variables: []admissionv1.Variable{{
			Name: "new", Expression: "object.spec.externalIPs.filter(a, !(a in " + had + "))",
		}},
		Validations: []admissionv1.Validation{{
			Expression: "variables.new.size() == 0 || namespaceObject.metadata.?labels.orValue({})[?'" +
				v1alpha1.ExternalIPsLabel + "'].orValue('') == 'allow'",
			MessageExpression: "'externalIPs ' + variables.new[0] + ': " + denied + "'",
			Message:           "externalIPs are " + denied,
			Reason:            new(metav1.StatusReasonForbidden),
		}},
	})
}
