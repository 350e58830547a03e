package diagnosis

import (
	"slices"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// detector looks for what is wrong in one place of a snapshot.
type detector struct {
	name string
	// needs are the parts of the snapshot without which it does not look.
	needs []string
	find  func(*view) []finding.Finding
	// explains are what follows from its findings: they stand below.
	explains []finding.ID
	// narrows leaves of them what one finding explains. Nil: all.
	narrows func(*view, *finding.Finding, []finding.ID) []finding.ID
	// explainsAll says that each of its findings does; else only those about the manager itself (managerWide).
	explainsAll bool
}

// detectors lists everything that is looked for, causes before what they explain.
func detectors() []detector {
	stopped := []finding.ID{ // what becomes of a manager that does not run
		finding.NoLeader, finding.LeaderSilent, finding.CrashLoop, finding.PodTerminated, finding.PodWaiting, finding.NotServed,
	}
	unplaced := append([]finding.ID{finding.PodPending, finding.PodTerminating, finding.NoPod}, stopped...)
	leaderless := []finding.ID{
		finding.NoLeader, finding.LeaderSilent, finding.BalancerPending, finding.BalancerStuck, finding.ShutdownStays,
	}
	others := slices.Concat(stopped, leaderless, []finding.ID{finding.LeaseLost}) // lost to somebody else
	return []detector{
		{"webhooks", []string{partValidating, partMutating}, unserved, nil, byGuards, true},
		{"scheduling", []string{partPods, partDeployments, partDaemonSets, partNodes}, scheduling, slices.Concat(unplaced, leaderless), nil, true},
		{"admission", []string{partEvents}, refusedPods, slices.Concat(unplaced, leaderless), nil, true},
		{"what pods refer to", []string{partPods}, missingObjects, slices.Concat(unplaced, leaderless), nil, true},
		{"files that pods mount", []string{partPods, partEvents}, missingFiles, slices.Concat(unplaced, leaderless), nil, true},
		{"no manager", []string{partPods, partDeployments, partDaemonSets, partLeases}, noManager, slices.Concat(stopped, leaderless), nil, true},
		{"replicas", []string{partDeployments}, noReplicas, slices.Concat(unplaced, leaderless), nil, true},
		{"log", []string{partPods}, symptomsInLog, slices.Concat(stopped, leaderless, []finding.ID{finding.ManagerFails}), nil, true},
		{"leaders", []string{partLeases, partPods}, foreignLeader, others, nil, true},
		{"holders", []string{partLeases, partPods}, abandonedLease, others, nil, true},
		{"managers", []string{partLeases, partPods}, twoManagers, []finding.ID{finding.ManagerFails}, nil, true},
		{"permissions", []string{partPods}, permissions, slices.Concat(stopped, leaderless, []finding.ID{finding.ManagerFails}), byVerbs, true},
		{"deleted Nodes", []string{partNodes, partHeartbeats}, kubeletsWithoutNode, nil, nil, false},
		{"nodes", []string{partNodes}, waitingNodes, leaderless, bySilence, false},
		{"clocks of machines", []string{partNodes, partHeartbeats}, clocks, nil, nil, false},
		{"inventory", []string{partInventory, partPods, partEvents, partLeases}, rejectedReading, nil, nil, false},
		{"names", []string{partNodes}, machineTwice, []finding.ID{finding.KubeletSilent}, nil, true},
		{"routes", []string{partNodes}, routes, []finding.ID{finding.NotReady}, nil, true},
		{"pod networks", []string{partNodes}, podNetworks, nil, nil, false},
		{"shutdown", []string{partNodes}, shutdown, nil, nil, false},
		{"zones", []string{partNodes}, zones, nil, nil, false},
		{"versions", []string{partNodes, partVersion}, skew, nil, nil, false},
		{"deleted Services", []string{partServices}, stuckServices, nil, nil, false},
		{"address pools", []string{partPools}, brokenPools, nil, nil, false},
		{"lost address pools", []string{partPools, partServices}, lostPools, []finding.ID{finding.BalancerPending}, nil, false},
		{"refused load balancers", []string{partServices}, refusedBalancers, nil, nil, false},
		{"load balancers", []string{partServices, partNodes}, balancers, nil, nil, false},
		{"what ccmadm has written down", []string{partRecord}, misread, nil, nil, false},
		{"serving certificates", []string{partRequests}, servingCertificates, nil, nil, false},
	}
}

// waitingNodes are the causes that wait and status name: one engine says them (package doctor/nodes).
func waitingNodes(v *view) []finding.Finding {
	var list []finding.Finding
	for _, s := range v.report.Nodes {
		if s.Cause != nil {
			list = append(list, *s.Cause)
		}
	}
	list = append(list, v.facts.Silent(v.report.Nodes)...)
	return append(list, v.report.Findings...)
}

// Behind says whether nobody leads, or a Node waits to be initialized.
func (s *Snapshot) Behind() bool {
	v := newView(s)
	v.report = nodes.Judge(v.facts, nil)
	return !v.leads() || v.waits()
}

// waits says whether a Node has not come as far as being initialized.
func (v *view) waits() bool {
	return slices.ContainsFunc(v.report.Nodes, func(s nodes.Status) bool { return s.State < nodes.Initialized })
}

// bySilence says that where all of the manager's machines are silent, that is why nobody leads.
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
