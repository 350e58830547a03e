package e2e

import "github.com/ccmadm/ccmadm/api/v1alpha1"

// servicesSuite is Services and what they are made of.
func servicesSuite() suite {
	return suite{
		name: "Services and EndpointSlices", program: "e2e.test", procs: 6,
		focus: `\[sig-network\] (Services|EndpointSlice|EndpointSliceMirroring|Endpoints)\b`,
		leave: append(disruptive(), unavailable()...),
		known: map[v1alpha1.Level][]reason{v1alpha1.LevelL2: {{
			`via ExternalIP when the external IP is not assigned to a node`,
			"admission policy ccmadm-external-ips denies externalIPs without the Namespace's label ccmadm.dev/external-ips: allow (CVE-2020-8554)",
		}}},
	}
}

// networkSuite is the rest of the network that kube-proxy, CoreDNS and the pods' network are.
func networkSuite() suite {
	return suite{
		name: "DNS, networking, proxy", program: "e2e.test", procs: 6,
		focus: `\[sig-network\] (DNS|HostPort|Networking|Proxy|KubeProxy|Conntrack|Service endpoints)\b`,
		leave: append(disruptive(), unavailable()...),
	}
}

// nodesSuite is what upstream asks about Nodes, and of clouds.
func nodesSuite() suite {
	return suite{
		name: "Nodes and cloud provider", program: "e2e.test", procs: 4,
		focus: `\[sig-node\] (Node Lifecycle|NodeLease)|\[sig-cloud-provider\]`,
		leave: []reason{{
			`\[Feature:CloudProvider\] \[Disruptive\]`,
			"it has a cloud's API delete a machine and wants the Node gone at once; provider onprem deletes Nodes by the inventory only",
		}},
	}
}

// conformanceSuite is what every conformant cluster passes.
func conformanceSuite() suite {
	return suite{
		name: "Conformance", program: "e2e.test", focus: `\[Conformance\]`, procs: 6, apart: `\[Serial\]`,
		leave: []reason{
			{`ImageVolume should succeed with pod and pull policy of Always`, "a registry: the kubelet asks it for the image each time"},
			{`read only busybox container should not write to root`, "it reads the words of BusyBox 1.37; the shell of the image here is bash"},
		},
	}
}

// serialSuite is the part of conformance that is alone in a cluster.
func serialSuite() suite {
	return suite{name: "Conformance, Serial", program: "e2e.test", focus: `\[Serial\].*\[Conformance\]`, procs: 1}
}

// disruptive are tests that are alone in a cluster.
func disruptive() []reason {
	return []reason{
		{`\[Serial\]`, "alone in a cluster: a run of its own"},
		{`\[Disruptive\]`, "it restarts what others need"},
		{
			`\[Feature:[^\]]*\]|\[Alpha\]|\[FeatureGate:[^\]]*\] \[(Alpha|Beta)\]`,
			"a feature that kubeadm's defaults do not switch on, or that needs a cloud",
		},
	}
}

// unavailable are tests that want what no package of Debian and no Go module brings.
func unavailable() []reason {
	return []reason{
		{`(?i)sctp`, "the kernel of the machines has no SCTP"},
		{`(?i)internet`, "no internet"},
		{`(?i)iperf2`, "Debian's iperf 2.1 prints other fields than the test reads"},
		{`(?i)gcr\.io|private (registry|image)|from the invalid`, "a registry"},
		{`(?i)runtime blackbox test when running a container with a new image`, "a registry"},
	}
}
