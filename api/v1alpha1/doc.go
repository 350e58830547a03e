// Package v1alpha1 has our objects in a cluster, API group ccmadm.dev, and the names of objects, labels and annotations that
// ccmadm's versions have in common.
//
// Start at [AddressPool] and [BGPPeer], which users write, and [NodeAgent], [NodeAgentLease],
// [NodeAnnouncements] and [NodeRoutes], which agents write. The files that people write are in api/config, and what ccmadm writes down in api/state.
//
// It reads and writes nothing, and imports no other package of ours but finding.
//
// +k8s:deepcopy-gen=package
// +groupName=ccmadm.dev
// +versionName=v1alpha1
package v1alpha1

//go:generate sh -c "go run k8s.io/code-generator/cmd/deepcopy-gen@$(go list -m -f {{.Version}} k8s.io/api) --output-file zz_generated.deepcopy.go ."
