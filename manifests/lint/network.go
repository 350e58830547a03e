package lint

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

func hostNetwork(w *workload) []problem {
	if w.agent || w.pod.HostNetwork {
		return nil
	}
	return w.problem(w.at(w.in()...), "hostNetwork is not set", w.set("true", yaml.NodeTagBool, w.in("hostNetwork")...))
}

// dnsPolicy knows that the kubelet takes ClusterFirst for Default on the host network, k8s.io/kubernetes/pkg/kubelet/network/dns.
func dnsPolicy(w *workload) []problem {
	policy := w.pod.DNSPolicy
	if policy == "" {
		policy = corev1.DNSClusterFirst
	}
	if w.agent || policy != corev1.DNSClusterFirstWithHostNet && (w.pod.HostNetwork || policy != corev1.DNSClusterFirst) {
		return nil
	}
	message := fmt.Sprintf("dnsPolicy %s, while CoreDNS waits for this pod", policy)
	return w.problem(w.at(w.in("dnsPolicy")...), message, w.set(string(corev1.DNSDefault), "", w.in("dnsPolicy")...))
}

func apiServer(w *workload) []problem {
	if !w.scheduled() {
		return nil
	}
	for _, name := range []string{"kubeconfig", "master"} {
		if _, ok := w.arg(name); ok {
			return nil
		}
	}
	if slices.ContainsFunc(w.main().Env, func(e corev1.EnvVar) bool { return e.Name == "KUBERNETES_SERVICE_HOST" }) {
		return nil
	}
	return w.problem(w.at(w.of("env")...), "nothing says where the API server is but the service's address", nil)
}
