package manifests

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// approverName is that of the approver's Deployment and of its ServiceAccount.
const approverName = v1alpha1.FieldManager + "-serving-certificates"

// approverRules are what approving serving certificates takes.
func approverRules(files ...string) ([]templates.Rule, error) {
	var all []templates.Rule
	for _, name := range files {
		var rules []templates.Rule
		if err := load(name, &rules); err != nil {
			return nil, err
		}
		all = append(all, rules...)
	}
	return all, nil
}

// approverRBAC returns the identity of the approver that runs beside a vendor's program, and all that it may do.
func approverRBAC() ([]metav1.Object, error) {
	rules, err := approverRules("serving-rules.yaml", "serving-policy-rules.yaml")
	if err != nil {
		return nil, err
	}
	list := []metav1.Object{serviceAccount(approverName)}
	return append(list, grant(v1alpha1.Prefix+"serving-certificates", rules, account(approverName))...), nil
}

// approver returns its Deployment. The number of replicas is the API server's default, 1; two come to the same.
func approver(p *templates.Profile, v templates.Values) (*appsv1.Deployment, error) {
	template := corev1.PodTemplateSpec{}
	labels := map[string]string{v1alpha1.NameLabel: approverName}
	template.Labels = map[string]string{v1alpha1.NameLabel: approverName, v1alpha1.ManagedByLabel: v1alpha1.FieldManager}
	if err := load("serving.yaml", &template.Spec); err != nil {
		return nil, err
	}
	var err error
	if template.Spec.Containers[0].Image, err = p.ApproverImage(v); err != nil {
		return nil, err
	}
	if v.ServingRanges != "" {
		c := &template.Spec.Containers[0]
		c.Args = append(c.Args, "--serving-certificate-ranges="+v.ServingRanges)
	}
	template.Spec.Containers[0].Args = append(template.Spec.Containers[0].Args, p.ServingNameArgs(v)...)
	if err := schedule(&template.Spec, approverName, v); err != nil {
		return nil, err
	}
	d := deployment(p, labels, template)
	d.ObjectMeta = objectMeta(approverName)
	return d, nil
}

// kubeletPolicy returns the admission policy that keeps kubelets to what a cloud-controller-manager has said of their
// Nodes: what they write of it themselves would be an address that they want a certificate for.
func kubeletPolicy() []metav1.Object {
	return admissionPolicy(config.KubeletPolicyName, admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
			onResources("", "v1", []string{"nodes"}, admissionv1.Create),
			onResources("", "v1", []string{"nodes/status"}, admissionv1.Update),
		}},
		MatchConditions: []admissionv1.MatchCondition{{Name: "kubelet", Expression: config.KubeletPolicyCondition}},
		Validations: []admissionv1.Validation{
			{
				Expression: config.KubeletPolicyCreate, Reason: new(metav1.StatusReasonForbidden),
				Message: fmt.Sprintf("kubelets of this cluster register with taint %s: start the kubelet with "+
					"--cloud-provider=external", v1alpha1.UninitializedTaint),
			},
			{
				Expression: config.KubeletPolicyAddresses, Reason: new(metav1.StatusReasonForbidden),
				Message: "the addresses of a Node that is initialized are the cloud-controller-manager's to change",
			},
			{
				Expression: config.KubeletPolicyNames, Reason: new(metav1.StatusReasonForbidden),
				Message: "the DNS names of a Node are the cloud-controller-manager's to give",
			},
		},
	})
}
