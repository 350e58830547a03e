package e2e

import (
	"fmt"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// reports is a report of the agent of w2.
func reports(status object) []request {
	return []request{patchAt(agentsPath+"/w2/status", object{"status": status})}
}

func announces(addresses ...string) object {
	var list []object
	for _, a := range addresses {
		list = append(list, object{"address": a, "level": "L2", "interface": "eth0"})
	}
	return object{"announcements": list, "announced": len(list)}
}

func hears(addresses ...string) object {
	var list []object
	for _, a := range addresses {
		list = append(list, object{"address": a, "mac": "02:00:00:00:00:99", "interface": "eth0", "seen": "2036-01-01T00:00:00.000000Z"})
	}
	return object{"conflicts": list}
}

func interfaces(mac string, addresses ...string) object {
	return object{"interfaces": []object{{"name": "eth0", "mac": mac, "addresses": addresses}}}
}

// listens is on ports from 1.
func listens(count int) object {
	var ports []string
	for i := range count {
		ports = append(ports, fmt.Sprintf("tcp/%d", i+1))
	}
	return object{"listening": ports}
}

func agentAttempts() []attempt { return append(agentReports(), agentOthers()...) }

// agentReports are lies of what it may write.
func agentReports() []attempt {
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("198.18.%d.%d", i/250, i%250+1))
	}
	return []attempt{
		{name: "announces an honest Service's address", do: reports(announces("{lan-a}", "{lan-b}"))},
		{name: "announces the control plane's address, another Node's and another machine's", do: reports(announces("{vip}", "{w1}", "{w3}"))},
		{name: "announces a thousand addresses", do: reports(announces(many...))},
		{name: "announces no address, and odd text", do: reports(announces("", "x", "::ffff:{vip}", "{vip}%eth0", "0.0.0.0"))},
		{name: "listens on every port", do: reports(listens(65535))},
		{name: "listens on an honest Service's port", do: reports(object{"listening": []string{"tcp/80", "80", "TCP/80", "tcp/-1", "x/y/z"}})},
		{name: "another Node is its gateway", do: reports(object{"gateways": []string{"{w1}"}})},
		{name: "an honest Service's address is its gateway", do: reports(object{"gateways": []string{"{lan-a}"}})},
		{name: "the control plane's address is its gateway", do: reports(object{"gateways": []string{"{vip}", "{cp1}"}})},
		{name: "a thousand gateways", do: reports(object{"gateways": many})},
		{name: "a network that is all of the world", do: reports(interfaces("02:00:00:00:00:99", "0.0.0.0/0"))},
		{name: "another Node's hardware address and addresses", do: reports(interfaces("{macofw1}", "{w1}/24", "{lan-a}/32"))},
		{name: "no interface", do: reports(object{"interfaces": []object{}})},
		{name: "somebody else answers for honest Services' addresses", do: reports(hears("{lan-a}", "{lan-b}"))},
		{name: "somebody else answers for a thousand addresses", do: reports(hears(many...))},
		{name: "sessions with peers that are not there", do: reports(object{"sessions": []object{{"peer": "x", "state": "Established", "advertised": 9}}})},
		{name: "drains", do: reports(object{"draining": true})},
		{name: "a report of the far future", do: reports(object{"renewTime": "9999-01-01T00:00:00.000000Z"})},
		{name: "a report of long ago", do: reports(object{"renewTime": "0001-01-01T00:00:01.000000Z", "version": "\u202e<script>"})},
	}
}

// agentOthers is about what belongs to others.
func agentOthers() []attempt {
	agent := func(name string) request {
		return request{method: "POST", path: agentsPath, body: document(object{
			"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.NodeAgentKind, "metadata": object{"name": name},
		})}
	}
	return []attempt{
		{name: "another agent's report", denied: true, do: []request{
			patchAt(agentsPath+"/w1/status", object{"status": object{"interfaces": []object{}}}),
			patchAt(agentsPath+"/cp1/status", object{"status": announces("{lan-a}")}),
		}},
		{name: "marks agents as silent", denied: true, do: []request{
			patchAt(agentsPath+"/w1", annotatedWith(v1alpha1.AgentSilentAnnotation, "x")),
			patchAt(agentsPath+"/w2", annotatedWith(v1alpha1.AgentSilentAnnotation, "x")),
		}},
		{name: "reports of Nodes that are not there", denied: true, do: []request{agent("w0"), agent("a"), agent("w3")}},
		{name: "deletes reports", denied: true, do: []request{{method: "DELETE", path: agentsPath + "/w1"}, {method: "DELETE", path: agentsPath}}},
		{name: "claims: makes, probes, releases, deletes", denied: true, do: []request{
			{method: "POST", path: claimsPath, body: document(object{"metadata": object{"name": "{nobodys}"}})},
			patchAt(claimsPath+"/{lan-a}", annotatedWith(v1alpha1.ClaimProbedAnnotation, "2026-01-01T00:00:00Z")),
			patchAt(claimsPath+"/{lan-a}", annotatedWith(v1alpha1.ClaimReleasedAnnotation, "2026-01-01T00:00:00Z")),
			{method: "DELETE", path: claimsPath + "/{lan-a}"},
		}},
		{name: "pools and peers", denied: true, do: []request{
			patchAt(poolsPath+"/lan", object{"spec": object{"interfaces": []string{"x"}}}),
			{method: "DELETE", path: poolsPath + "/lan"},
			patchAt(poolsPath+"/lan/status", object{"status": object{"assigned": 0}}),
			{method: "POST", path: peersPath, body: "{}"},
		}},
		{name: "Services, their endpoints, and Nodes", denied: true, do: []request{
			patchAt(honestServices+"/lan-a", annotatedWith(v1alpha1.ReassignAnnotation, "true")),
			patchAt(honestServices+"/lan-a/status", object{"status": object{"loadBalancer": object{}}}),
			slice(honestSlices, "lan-a", "{w2}", 8080), patchAt(nodesPath+"/w2", labelled("a", "b")),
			patchAt(nodesPath+"/w1/status", object{"status": object{"addresses": []object{}}}),
		}},
		{name: "Secrets: of heartbeats, of the manager, all of them", denied: true, do: []request{
			{method: "GET", path: systemSecrets + "/" + v1alpha1.AgentName},
			{method: "GET", path: systemSecrets},
			patchAt(systemSecrets+"/"+v1alpha1.AgentName, object{"data": object{v1alpha1.HeartbeatKey: ""}}),
		}},
		{name: "tokens, and routes of pods", denied: true, do: []request{
			{method: "POST", path: systemAccounts + "/" + v1alpha1.AgentName + "/token", body: "{}"},
			{method: "POST", path: "/apis/ccmadm.dev/v1alpha1/noderoutes", body: document(object{
				"apiVersion": v1alpha1.APIVersion, "kind": "NodeRoutes", "metadata": object{"name": "w1"},
			})},
		}},
		{name: "the manager's Lease, its configuration and kube-proxy's", denied: true, do: []request{
			patchAt("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager", object{"spec": object{"holderIdentity": "w2"}}),
			patchAt("/api/v1/namespaces/kube-system/configmaps/kube-proxy", object{"data": object{"kubeconfig.conf": ""}}),
			patchAt("/api/v1/namespaces/kube-system/configmaps/ccmadm-config", object{"data": object{"a": ""}}),
		}},
		{name: "Events of an honest Service", do: []request{{method: "POST", path: "/api/v1/namespaces/default/events", body: document(object{
			"metadata": object{"generateName": "x"}, "reason": "PoolExhausted", "type": "Warning",
			"involvedObject": object{"kind": "Service", "namespace": "default", "name": "lan-a"},
		})}}},
	}
}
