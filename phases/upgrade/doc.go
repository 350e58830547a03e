// Package upgrade runs `kubeadm upgrade` with the cloud-controller-manager in it, on this machine and from it on others.
//
// Start at [ControlPlane] and [Worker], the lists; package planner decides what they do from [Upgrade.LiveFacts].
// Reads: versions, flags and gates of all components, kubeadm's plan. Writes: kubeadm's ConfigMaps without what the target
// refuses, what package manager writes, this machine's upgrade state. A run that was interrupted is resumed by the same
// command.
package upgrade
