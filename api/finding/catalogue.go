package finding

import (
	"slices"
	"strings"
)

// Catalogue lists every kind of finding. The letters: A kubeadm files and static pods, B a manager's pod and program,
// C its network, D its permissions, E a rehearsal, F routes, G names, H leaders, K the kubelet's machine, L addresses of
// load balancers, M machines and the inventory, N nodes that are there for long, O what ccmadm has written down, P
// preflight, Q components of the cluster, R refusals to delete a Node, U upgrades, W waiting for a node.
func Catalogue() []Kind {
	return slices.Concat(
		kubeadmFiles(),
		kubeadmForm(),
		placement(),
		admission(),
		network(),
		process(),
		leading(),
		routes(), podRoutes(),
		permissions(),
		pending(), silent(),
		waiting(),
		waitingForCluster(),
		waitingForPods(),
		machines(), identities(),
		preflight(), preflightOfTheNode(),
		refusals(),
		rehearsal(),
		diagnosed(), lasting(),
		hostKubelet(), hostMachine(), hostNetwork(),
		probed(),
		components(), common(),
		upgrades(), upgradesAhead(), upgradesHalfDone(),
		records(),
	)
}

// Lookup finds a kind by its ID or its reason, in any case.
func Lookup(name string) (Kind, bool) {
	all := Catalogue()
	i := slices.IndexFunc(all, func(k Kind) bool {
		return strings.EqualFold(string(k.ID), name) || name != "" && strings.EqualFold(k.Reason, name)
	})
	if i < 0 {
		return Kind{}, false
	}
	return all[i], true
}

// Kind is the entry of the catalogue. An ID that is not in it, which no ID of this package is, stands for itself.
func (id ID) Kind() Kind {
	if k, ok := Lookup(string(id)); ok {
		return k
	}
	return Kind{ID: id, Severity: SeverityError}
}
