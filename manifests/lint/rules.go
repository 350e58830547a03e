package lint

import "github.com/ccmadm/ccmadm/api/finding"

// detector looks for one kind of mistake, in each workload or in all files together.
type detector struct {
	id       finding.ID
	workload func(*workload) []problem
	set      func(*Set) []problem
}

// detectors lists everything that is looked for in manifests.
func detectors() []detector {
	return []detector{
		{id: "A15", workload: staticPod},
		{id: "B1", workload: tolerates(uninitialized)},
		{id: "B2", workload: tolerates(notReady)},
		{id: "B3", workload: tolerates(controlPlane)},
		{id: "B4", workload: selector},
		{id: "B5", workload: oneMachine},
		{id: "B6", workload: podSecurity},
		{id: "B18", workload: imageTag},
		{id: "B19", set: apiVersions},
		{id: "F2", workload: networkUnavailable},
		{id: "C1", set: hostNetwork},
		{id: "C2", workload: apiServer},
		{id: "C3", workload: dnsPolicy},
		{id: "B10", set: samePort},
		{id: "B11", workload: webhookPort},
		{id: "B12", workload: ofFlags(probes)},
		{id: "B13", workload: ofFlags(removedFlags)},
		{id: "B14", workload: ofFlags(controllers)},
		{id: "B15", workload: ofFlags(provider)},
		{id: "B20", set: endedProviders},
		{id: "B16", workload: resourceLock},
		{id: "B17", workload: untagged},
		{id: "D2", workload: cloudConfig},
		{id: "G6", workload: ofFlags(clusterName)},
		{id: "H3", workload: leaderElection},
		{id: "F1", workload: ofFlags(routes)},
		{id: "F6", workload: allocator},
		{id: "D5", set: authentication},
		{id: "D6", set: permissions("D6")},
		{id: "D7", set: accountRights},
		{id: "D8", set: permissions("D8")},
		{id: "D9", set: permissions("D9")},
		{id: "D10", set: permissions("D10")},
		{id: "D12", set: sharedNames},
		{id: "D13", set: permissions("D13")},
		{id: "D14", set: everything},
		{id: "D15", set: unbound},
		{id: finding.ExternalIPs, set: externalIPs},
		{id: finding.SharingConflict, set: shareNamespaces},
	}
}

// ofFlags has a rule look at programs with the flags of k8s.io/cloud-provider/app. One that is known by its name alone may have others.
func ofFlags(rule func(*workload) []problem) func(*workload) []problem {
	return func(w *workload) []problem {
		if !w.upstreamFlags() {
			return nil
		}
		problems := rule(w)
		for i := range problems {
			problems[i].unsure = problems[i].unsure || w.byName()
		}
		return problems
	}
}

// Rules lists what is looked for in manifests, as the catalogue has it.
func Rules() []finding.Kind {
	var list []finding.Kind
	for _, d := range detectors() {
		list = append(list, d.id.Kind())
	}
	return list
}
