// Package bootstrap has the phases around `kubeadm init`, `kubeadm join` and `kubeadm reset`.
//
// Start at the lists Init and Join of package phases. Reads: the host, kubeadm's configuration, the cluster to join. Writes:
// /etc/ccmadm, the static pod of the control plane's address; kubeadm writes the rest. Once kubeadm has finished on a
// machine, no half of it runs again.
package bootstrap
