// Package adoption takes a cluster that kubeadm has made into external cloud mode, node by node, and out of it again.
//
// Start at [Adopt] and [Leave], the lists, and [Back], which rolls one of them back by the other. [Adoption] is what the user
// says beside the settings, and the operation. Reads: Nodes, kubelets' flags, other managers, the journal. Writes: what
// package manager writes, each machine's kubelet flags through package fleet, and a taint while a Node is initialized. A
// second run resumes where the first one stopped.
package adoption
