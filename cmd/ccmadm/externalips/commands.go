package externalips

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
)

// readyTime is how long the printed wait may take: agents probe the network, and one of them announces the address.
const readyTime = "60s"

// commands are lines for a shell. externalIPs go once the load balancer has the address, and stay where it does not get it.
func (c *candidate) commands(kubectl []string) []string {
	of := func(words ...string) string {
		return machine.ShellQuote(slices.Concat(kubectl, []string{"-n", c.object.Namespace}, words)...)
	}
	patch := func(patch any) string {
		text, err := json.Marshal(patch)
		if err != nil { // maps of texts are no error
			return ""
		}
		return of("patch", "service", c.object.Name, "--type", "merge", "-p", string(text))
	}
	remove := patch(map[string]any{"spec": map[string]any{"externalIPs": nil}})
	switch c.Action {
	case Remove:
		return []string{remove}
	case Move:
		spec := map[string]any{"type": corev1.ServiceTypeLoadBalancer}
		if c.object.Spec.Type == corev1.ServiceTypeClusterIP {
			spec["allocateLoadBalancerNodePorts"] = false // it had none
		}
		return []string{
			patch(map[string]any{"metadata": map[string]any{"annotations": c.patched()}, "spec": spec}),
			of("wait", "service/"+c.object.Name, "--for=condition="+v1alpha1.LoadBalancerReady, "--timeout="+readyTime) + " && \\\n  " + remove,
		}
	}
	return nil
}
