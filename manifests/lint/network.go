package lint

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// hostNetwork offers no fix where the port on the machine would be taken by another pod.
func hostNetwork(s *Set) []problem {
	taken := map[string]bool{}
	for _, w := range s.workloads {
		taken[w.securePort()] = taken[w.securePort()] || w.pod.HostNetwork && !w.agent
	}
	var problems []problem
	for _, w := range s.workloads {
		if w.pod.HostNetwork || !w.initializes() {
			continue
		}
		fix := w.set("true", yaml.NodeTagBool, w.in("hostNetwork")...)
		port := w.securePort()
		if taken[port] && port != noPort {
			fix = nil
		}
		taken[port] = true
		problems = append(problems, w.problem(w.at(w.in()...), "hostNetwork is not set", fix)...)
	}
	return problems
}

// dnsPolicy knows that the kubelet takes ClusterFirst for Default on the host network,
// k8s.io/kubernetes/pkg/kubelet/network/dns.
func dnsPolicy(w *workload) []problem {
	policy := w.pod.DNSPolicy
	if policy == "" {
		policy = corev1.DNSClusterFirst
	}
	if !w.initializes() ||
		policy != corev1.DNSClusterFirstWithHostNet && (w.pod.HostNetwork || policy != corev1.DNSClusterFirst) {
		return nil
	}
	message := fmt.Sprintf("dnsPolicy %s, while CoreDNS waits for this pod", policy)
	return w.problem(w.at(w.in("dnsPolicy")...), message, w.set(string(corev1.DNSDefault), "", w.in("dnsPolicy")...))
}

func apiServer(w *workload) []problem {
	if !w.scheduled() || !w.initializes() {
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
