package diagnosis

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/requests"
)

// detectors lists everything that is looked for, causes before what they explain.
func detectors() []detector {
	stopped := []finding.ID{ // what becomes of a manager that does not run
		finding.NoLeader, finding.LeaderSilent, finding.CrashLoop, finding.PodTerminated, finding.PodWaiting, finding.NotServed,
	}
	unplaced := append([]finding.ID{finding.PodPending, finding.PodTerminating, finding.NoPod}, stopped...)
	leaderless := []finding.ID{
		finding.NoLeader, finding.LeaderSilent, finding.BalancerPending, finding.BalancerStuck, finding.ShutdownStays,
	}
	unanswered := []finding.ID{finding.NodeServiceUnanswered, finding.NodeServerUnreached, finding.NodeDNSUnanswered, finding.NodeBalancerUnreached}
	others := slices.Concat(stopped, leaderless, []finding.ID{finding.LeaseLost}) // lost to another holder
	return append([]detector{
		{"webhooks", []string{partValidating, partMutating}, unserved, nil, byGuards, true},
		{"callouts", []string{partValidating, partMutating}, ofSnapshot(unansweredCalls), []finding.ID{finding.WriteRefused}, refusing(), true},
		{"scheduling", []string{partPods, partDeployments, partDaemonSets, partNodes}, scheduling, slices.Concat(unplaced, leaderless), nil, true},
		{"admission", []string{partEvents}, refusedPods, slices.Concat(unplaced, leaderless), nil, true},
		{"what pods refer to", []string{partPods}, missingObjects, slices.Concat(unplaced, leaderless), nil, true},
		{"files that pods mount", []string{partPods, partEvents}, missingFiles, slices.Concat(unplaced, leaderless), nil, true},
		{"no manager", []string{partPods, partDeployments, partDaemonSets, partLeases}, noManager, slices.Concat(stopped, leaderless), nil, true},
		{"replicas", []string{partDeployments}, noReplicas, slices.Concat(unplaced, leaderless), nil, true},
		{"log", []string{partPods}, symptomsInLog, slices.Concat(stopped, leaderless, []finding.ID{finding.ManagerFails}), also(finding.EtcdFull, finding.KubeletSilent, finding.NotReady, finding.ComponentWithoutLeader), true},
		{"answers of the cloud", []string{partPods, partNodes}, unansweredRounds, []finding.ID{finding.ManagerFails, finding.BalancerPending, finding.BalancerStuck}, nil, true},
		{"leaders", []string{partLeases, partPods}, foreignLeader, others, nil, true},
		{"holders", []string{partLeases, partPods}, abandonedLease, others, nil, true},
		{"managers", []string{partLeases, partPods}, twoManagers, []finding.ID{finding.ManagerFails}, nil, true},
		{"Leases of two managers", []string{partPods}, ofManagers(sharedLease), []finding.ID{finding.ManagerFails, finding.ForeignLeader}, nil, true},
		{"permissions", []string{partPods}, permissions, slices.Concat(stopped, leaderless, []finding.ID{finding.ManagerFails}), byVerbs, true},
		{"requests", []string{partKubeadm, partNodes}, ofSnapshot(func(s *Snapshot) []finding.Finding { return requests.Judge(s.Served) }), []finding.ID{finding.NoPod, finding.ComponentMissing}, saying(finding.WriteRefused, "new pod of"), true},
		{"configurations", nil, ofSnapshot(unusable), nil, nil, false},
		{"components that kubeadm made", []string{partKubeadm, partNodes, partPods, partDeployments, partDaemonSets}, judged(components.JudgeKubeadm), []finding.ID{"C2"}, byWorkload, true},
		{"components", []string{partNodes, partPods, partDeployments, partDaemonSets}, deviations, []finding.ID{"C2"}, byWorkload, true},
		{"Services that every cluster depends on", []string{partKubeadm, partServices, partPods, partDeployments, partDaemonSets}, judged(components.JudgeServices), nil, nil, false},
		{"what is switched off", []string{partKubeadm}, judged(components.JudgeSwitches), []finding.ID{finding.NotSigned, finding.ClientRequest}, ofController(), true},
		{"networks that Nodes are given", []string{partKubeadm, partNodes}, judged(components.JudgeNetworks), []finding.ID{finding.NotReady}, onlyOf("F5"), true},
		{"certificates that are not signed", []string{partRequests, partPods}, judged(components.JudgeSigning), nil, nil, false},
		{"members of etcd", []string{partKubeadm, partNodes, partPods}, judged(components.JudgeEtcd), nil, nil, false},
		{"settings of several places", []string{partKubeadm, partNodes, partPods}, ofSnapshot(disagreements), nil, nil, false},
		{"deleted Nodes", []string{partNodes, partHeartbeats}, kubeletsWithoutNode, nil, nil, false},
		{"nodes", []string{partNodes}, waitingNodes, leaderless, bySilence, false},
		{"IP forwarding of Nodes", nil, asked(finding.NodeForwardingOff), unanswered, nil, true},
		{"API servers, as Nodes see them", nil, asked(finding.NodeServerUnreached), []finding.ID{finding.NodeServiceUnanswered}, nil, true},
		{"Service of the API server, as Nodes see it", nil, asked(finding.NodeServiceUnanswered), []finding.ID{finding.NodeDNSUnanswered, finding.NodeBalancerUnreached}, nil, true},
		{"what else Nodes see", nil, asked(finding.NodeDNSUnanswered, finding.KubeletUnreached, finding.NodeBalancerUnreached, finding.LinkMTU, finding.PodMTU), nil, nil, false},
		{"inventory", []string{partInventory, partPods, partEvents, partLeases}, rejectedReading, nil, nil, false},
		{"names", []string{partNodes}, ofSnapshot(machineTwice), []finding.ID{finding.KubeletSilent, finding.ProviderIDTwice}, nil, true},
		{"provider IDs", []string{partNodes}, ofSnapshot(providerIDTwice), nil, nil, false},
		{"routes", []string{partNodes}, routes, []finding.ID{finding.NotReady}, nil, true},
		{"pod networks", []string{partNodes}, podNetworks, nil, nil, false},
		{"shutdown", []string{partNodes}, ofSnapshot(shutdown), nil, nil, false},
		{"zones", []string{partNodes}, zones, nil, nil, false},
		{"versions", []string{partNodes, partVersion}, skew, nil, nil, false},
		{"deleted Services", []string{partServices}, stuckServices, nil, nil, false},
		{"address pools", []string{partPools}, brokenPools, nil, nil, false},
		{"lost address pools", []string{partPools, partServices}, lostPools, []finding.ID{finding.BalancerPending}, nil, false},
		{"refused load balancers", []string{partServices}, refusedBalancers, nil, nil, false},
		{"load balancers", []string{partServices, partNodes}, balancers, nil, nil, false},
		{"what ccmadm has written down", []string{partRecord}, ofSnapshot(misread), nil, nil, false},
		{"commands that stopped", []string{PartJournal}, ofSnapshot(unfinished), halfway(), nil, true},
		{"serving certificates", []string{partRequests}, ofSnapshot(servingCertificates), nil, nil, false},
	}, slices.Concat(seenByServers(), laterVersions())...)
}

// seenByServers are about Nodes as API servers see them.
func seenByServers() []detector {
	return []detector{
		{"clocks of machines", []string{partNodes, partHeartbeats}, clocks, nil, nil, false},
		{"network of the manager's routes", []string{partNodes, partDeployments, partDaemonSets}, otherNetwork, nil, nil, false},
		{"versions of managers", []string{partPods}, twoVersions, nil, nil, false},
		{"addresses of Nodes", []string{partNodes}, ofSnapshot(addressTwice), []finding.ID{finding.KubeletUnreached}, nil, true},
		{"kubelets, as the API server sees them", []string{partNodes}, ofSnapshot(unreachedKubelets), nil, nil, false},
	}
}

// laterVersions are about what works now, and ends in a version of Kubernetes to come.
func laterVersions() []detector {
	return []detector{
		{"container runtimes of later versions", []string{partNodes}, ofSnapshot(oldRuntimes), nil, nil, false},
		{"kube-proxy of later versions", []string{partProxy, partVersion}, ofSnapshot(endingProxyMode), nil, nil, false},
		{"externalIPs of later versions", []string{partServices, partVersion}, ofSnapshot(endingExternalIPs), nil, nil, false},
	}
}

// byWorkload leaves of what deviations explain what hangs on their workload: an address of a Service that does not answer, where kube-proxy is ready on no Node of the
// manager's; Nodes without a network, where a CNI plugin lacks a pod on each; and pools that are not found, where their kind is not there.
func byWorkload(v *view, f *finding.Finding, explains []finding.ID) []finding.ID {
	switch m := v.main(); {
	case f.ID == finding.KindMissing:
		return []finding.ID{finding.PoolNotFound}
	case slices.ContainsFunc(v.facts.Networks, func(n nodes.PodNetwork) bool {
		return f.Object == "DaemonSet/"+n.Namespace+"/"+n.Name && keepsDown(&n, routes(v))
	}):
		return []finding.ID{finding.NetworkUnavailable}
	case f.Object != "DaemonSet/"+v1alpha1.Namespace+"/"+components.Proxy || m == nil ||
		slices.ContainsFunc(m.pods, func(p *corev1.Pod) bool { return v.Components.ReadyOn(components.Proxy, p.Spec.NodeName) }):
		return nil
	}
	return explains
}

// keepsDown tells whether each Node without a network has a pod of a CNI plugin that is not ready. One that is chained to another, as those of
// Istio and Multus, may fail elsewhere.
func keepsDown(n *nodes.PodNetwork, found []finding.Finding) bool {
	return len(n.Unready) >= components.MostUnready || !slices.ContainsFunc(found, func(f finding.Finding) bool {
		return f.ID == finding.NetworkUnavailable && !slices.ContainsFunc(n.Unready, func(p corev1.Pod) bool { return f.Object == "Node/"+p.Spec.NodeName })
	})
}

// ofController leaves of what a controller that is switched off explains what that one does.
func ofController() func(*view, *finding.Finding, []finding.ID) []finding.ID {
	does := map[finding.ID]string{finding.NotSigned: "csrsigning", finding.ClientRequest: "csrapproving"}
	return func(_ *view, f *finding.Finding, all []finding.ID) []finding.ID {
		return slices.DeleteFunc(slices.Clone(all), func(id finding.ID) bool { return !strings.Contains(f.Message, does[id]) })
	}
}

// saying says that of a detector's findings only those of one kind, with some words in their message, explain anything. A finding that is
// hidden below the wrong cause is worse than two causes.
func saying(id finding.ID, words string) func(*view, *finding.Finding, []finding.ID) []finding.ID {
	return func(_ *view, f *finding.Finding, explains []finding.ID) []finding.ID {
		if f.ID == id && strings.Contains(f.Message, words) {
			return explains
		}
		return nil
	}
}

// asked are the findings of some IDs of what pods asked from Nodes.
func asked(ids ...finding.ID) func(*view) []finding.Finding {
	return func(v *view) []finding.Finding {
		if v.Probe == nil {
			return nil
		}
		return v.Probe.Of(ids...)
	}
}

// bySilence says that where all of the manager's machines do not report, that is why there is no leader.
func bySilence(v *view, f *finding.Finding, explains []finding.ID) []finding.ID {
	pods := v.facts.Pods
	if f.ID != finding.KubeletSilent || v.leads() || len(pods) == 0 {
		return explains
	}
	silent := map[string]bool{}
	for _, found := range waitingNodes(v) {
		silent[found.Object] = silent[found.Object] || found.ID == finding.KubeletSilent
	}
	for _, p := range pods {
		if !silent["Node/"+p.Spec.NodeName] {
			return explains
		}
	}
	return []finding.ID{
		finding.NoLeader, finding.LeaderSilent, finding.CrashLoop, finding.BalancerPending, finding.BalancerStuck,
		finding.ShutdownStays,
	}
}

// hostDetectors look at the machine on which the doctor runs; without --host they find nothing.
func hostDetectors() []detector {
	leaderless := []finding.ID{
		finding.NoPod, finding.NoLeader, finding.LeaderSilent, finding.BalancerPending, finding.BalancerStuck,
	}
	node := []finding.ID{finding.KubeletSilent, finding.NotReady}
	server := []finding.ID{finding.ServerUnreached}
	runs := []finding.ID{finding.KubeletNotRun, finding.ServerUnreached}
	identity := []finding.ID{finding.IdentityEnds, finding.IdentityEnded, finding.Unauthorized, finding.KubeletNotRun, finding.KubeletSilent, finding.KubeletRejected}
	crash := []finding.ID{finding.CrashLoop, finding.PodTerminated}
	return []detector{
		{"clock", []string{HostClockPart}, ofHost(clockOff), []finding.ID{finding.CertificateEnded}, byClock, true},
		{"disks", []string{HostDisksPart}, ofHost(fullDisks), server, nil, true},
		{"kubelet flags", []string{HostFlagsPart}, onHost(hostFlags), slices.Concat(runs, node), onlyOf("A4", "A5"), true},
		{"kubelet process", []string{HostKubeletPart, HostFlagsPart}, ofHost(staleFlags), nil, nil, true},
		{"certificates", []string{HostCertsPart}, onHost(certificates), slices.Concat(identity, leaderless, server), byCertificate, true},
		{"certificates of running components", []string{HostCertsPart, HostPortsPart}, ofHost(formerCertificates), nil, nil, false},
		{"container runtime", []string{HostRuntimePart}, ofHost(runtimeOf), slices.Concat(runs, node), onlyOf(finding.RuntimeSilent), true},
		{"runtime of later versions", []string{HostRuntimePart}, ofSnapshot(oldRuntimeHere), nil, nil, false},
		{"kubelet unit", []string{HostKubeletPart}, ofHost(kubeletUnit), slices.Concat(node, server), onlyOf(finding.KubeletNotRun), true},
		{"the kubelet's name", []string{HostNodePart, HostFlagsPart}, ofSnapshot(renamedKubelet), slices.Concat(node, []finding.ID{finding.KubeletWithoutNode}), nil, true},
		{"the kubelet's Node", []string{HostNodePart}, onHost(withoutNode), slices.Concat(node, []finding.ID{finding.ServiceUnanswered, finding.KubeletWithoutNode}), nil, true},
		{"static pods", []string{HostManifestsPart}, ofHost(staticPods), slices.Concat(leaderless, server), ofManager, true},
		{"ports", []string{HostPortsPart}, onHost(takenPorts), slices.Concat(crash, leaderless, server), onlyOf("B10", finding.PortTaken), true},
		{"the API server's Service", []string{HostServicePart}, ofHost(unansweredService), nil, nil, true},
		{"resolver", []string{HostResolverPart}, ofHost(resolver), []finding.ID{finding.CloudNotFound}, nil, true},
		{"forwarding", nil, ofSnapshot(forwarding), nil, nil, true},
		{"bridges", nil, ofSnapshot(bridge), nil, nil, true},
		{"tracked connections", nil, ofHost(tracking), []finding.ID{finding.PacketsLost, finding.ServiceUnanswered}, nil, true},
		{"way to the API server", nil, ofSnapshot(unreachedServer), node, nil, true},
		{"lost packets", []string{HostSegmentsPart}, ofSnapshot(losses), nil, nil, true},
	}
}

// ofSnapshot is a detector that goes by what was read, and by nothing that follows from it.
func ofSnapshot(find func(*Snapshot) []finding.Finding) func(*view) []finding.Finding {
	return func(v *view) []finding.Finding { return find(v.Snapshot) }
}

// ofManagers has a detector look at nothing but managers.
func ofManagers(find func([]manager) []finding.Finding) func(*view) []finding.Finding {
	return func(v *view) []finding.Finding { return find(v.managers) }
}

// onlyOf says which findings of a detector explain anything.
func onlyOf(ids ...finding.ID) func(*view, *finding.Finding, []finding.ID) []finding.ID {
	return func(_ *view, f *finding.Finding, explains []finding.ID) []finding.ID {
		if slices.Contains(ids, f.ID) {
			return explains
		}
		return nil
	}
}

// also adds what one kind of a detector's findings explains beyond the others.
func also(id finding.ID, more ...finding.ID) func(*view, *finding.Finding, []finding.ID) []finding.ID {
	return func(_ *view, f *finding.Finding, explains []finding.ID) []finding.ID {
		if f.ID == id {
			return slices.Concat(explains, more)
		}
		return explains
	}
}

// ofManager says that another static pod's file keeps neither a manager nor the API server from running.
func ofManager(_ *view, f *finding.Finding, explains []finding.ID) []finding.ID {
	if strings.Contains(f.Message, "kube-apiserver") || strings.Contains(f.Message, "etcd") {
		return []finding.ID{finding.ServerUnreached}
	}
	if strings.Contains(f.Message, "cloud-controller") || strings.Contains(f.Message, "ccm") {
		return explains
	}
	return nil
}

// ofHost looks at a machine alone, where there is one to be looked at.
func ofHost(find func(*Host) []finding.Finding) func(*view) []finding.Finding {
	return onHost(func(_ *view, h *Host) []finding.Finding { return find(h) })
}

// onHost looks at a machine beside its cluster, where there is one to be looked at.
func onHost(find func(*view, *Host) []finding.Finding) func(*view) []finding.Finding {
	return func(v *view) []finding.Finding {
		if v.Host == nil {
			return nil
		}
		return find(v, v.Host)
	}
}
