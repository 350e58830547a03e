// Package manager brings the cloud-controller-manager to a cluster, changes it, and renews its certificate.
//
// Start at [Apply], the list of `ccmadm apply`; init, adopt and upgrade share its phases. Reads: the profile, the settings,
// credentials, the cluster's CA. Writes: Secret, ConfigMap and RBAC objects, the workload or the static pod and its
// kubeconfig, the node agent, and the cluster's record, last. A second run says "unchanged". It removes what another mode
// has left only once the new manager runs.
package manager
