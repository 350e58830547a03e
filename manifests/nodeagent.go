package manifests

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// nodeAgentName is that of the node agent's cluster-wide objects.
func nodeAgentName(p *templates.Profile) string { return v1alpha1.Prefix + p.Name + ":node-agent" }

// NodeAgent returns the definitions of AddressPool, BGPPeer, NodeAgent, NodeAgentLease, NodeAnnouncements and NodeRoutes, for
// users of the provider; and where the agent is wanted, its identity, all that it may do, and its DaemonSet. Its Secret
// is [HeartbeatSecret].
func NodeAgent(p *templates.Profile, v templates.Values) ([]*Object, error) {
	if p.NodeAgent == nil {
		return nil, fmt.Errorf("render node agent: provider %s has none", p.Name)
	}
	list, err := CRDs()
	if err != nil || !v.NodeAgent {
		return list, err
	}
	t := corev1.PodTemplateSpec{}
	if err := load("nodeagent.yaml", &t.Spec); err != nil {
		return nil, err
	}
	t.Labels = map[string]string{v1alpha1.NameLabel: v1alpha1.AgentName, v1alpha1.ManagedByLabel: v1alpha1.FieldManager}
	t.Spec.ServiceAccountName = v1alpha1.AgentName
	if t.Spec.Containers[0].Image, err = p.NodeAgentImage(v); err != nil {
		return nil, fmt.Errorf("render node agent: %w", err)
	}
	if err := reach(&t.Spec, v.Endpoint); err != nil {
		return nil, fmt.Errorf("render node agent: %w", err)
	}
	if v.ControlPlaneVIP != "" {
		if err := shieldVIP(&t.Spec, v); err != nil {
			return nil, fmt.Errorf("render node agent: %w", err)
		}
	}
	if v.Routes {
		setRoutes(&t.Spec, v)
	}
	objects := []metav1.Object{serviceAccount(v1alpha1.AgentName)}
	objects = append(objects, grant(nodeAgentName(p), granted(p.NodeAgent.RBAC, p, v), account(v1alpha1.AgentName))...)
	objects = append(objects, ownReportOnly()...)
	objects = append(objects, daemonSet(v1alpha1.AgentName, map[string]string{v1alpha1.NameLabel: v1alpha1.AgentName}, t))
	more, err := toObjects(objects...)
	return append(list, more...), err
}

// shieldVIP tells the agent the control plane's address, and the port at which the API server is there.
func shieldVIP(spec *corev1.PodSpec, v templates.Values) error {
	u, err := url.Parse(v.Endpoint)
	if err != nil {
		return fmt.Errorf("endpoint %q: %w", v.Endpoint, err)
	}
	c := &spec.Containers[0]
	c.Args = append(c.Args, "--control-plane-vip="+net.JoinHostPort(v.ControlPlaneVIP, cmp.Or(u.Port(), "6443")))
	return nil
}

// cniConfigDir is where container runtimes look for their network.
const cniConfigDir = "/etc/cni/net.d"

// setRoutes has the agent set the routes of pods, and connect them where no network add-on does.
func setRoutes(spec *corev1.PodSpec, v templates.Values) {
	c := &spec.Containers[0]
	c.Args = append(c.Args, "--routes=true", "--cluster-cidr="+v.PodSubnet, "--cni-config-dir="+cniConfigDir)
	mount(spec, "cni-config", cniConfigDir, hostPath(cniConfigDir, corev1.HostPathDirectoryOrCreate))
	c.VolumeMounts[len(c.VolumeMounts)-1].ReadOnly = false
}

// HeartbeatKeySize is that of the key of HMAC-SHA256, in bytes.
const HeartbeatKeySize = 32

// HeartbeatSecret returns the Secret with the key by which agents know each other's datagrams. It is only ever created:
// another key would part the agents that have it from those that have not.
func HeartbeatSecret(key []byte) (*Object, error) {
	if len(key) != HeartbeatKeySize {
		return nil, errors.New("render the key of heartbeats: it has not 32 bytes")
	}
	meta := objectMeta(v1alpha1.AgentName)
	meta.Annotations = map[string]string{v1alpha1.CreateOnlyAnnotation: "true"}
	return toObject(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta,
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{v1alpha1.HeartbeatKey: key},
	})
}

// ownReportOnly returns the policy by which an agent writes the objects of its own Node alone: RBAC knows one
// ServiceAccount for all of them. The Node's name is in the token, where the API server has put it (KEP-4193).
func ownReportOnly() []metav1.Object {
	const node = "authentication.kubernetes.io/node-name"
	user := "system:serviceaccount:" + v1alpha1.Namespace + ":" + v1alpha1.AgentName
	return admissionPolicy(v1alpha1.AgentName, admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
			onResources(v1alpha1.GroupName, "*", []string{"nodeagents", "nodeagents/status", "nodeagentleases", "nodeannouncements", "noderoutes"},
				admissionv1.Create, admissionv1.Update),
		}},
		MatchConditions: []admissionv1.MatchCondition{{
			Name: "agent", Expression: "request.userInfo.username == '" + user + "'",
		}},
		Validations: []admissionv1.Validation{{
			Expression: "'" + node + "' in request.userInfo.extra && " +
				"request.userInfo.extra['" + node + "'][0] == object.metadata.name",
			MessageExpression: "'this agent is not that of Node ' + object.metadata.name",
			Message:           "an agent writes the objects of its own Node only",
			Reason:            new(metav1.StatusReasonForbidden),
		}},
	})
}
