// Package kubelet sets the kubelet of this machine to external cloud mode, and takes it out again.
//
// Start at [Phase], which writes the flags of a machine that joins, and at [External], [Plain] and [ShowNode], the commands
// `ccmadm node ...` on a machine that is a node already. Reads: the kubelet's flag sources, its unit, the machine's addresses and
// metadata service. Writes: the kubelet's drop-in and environment file; in kubeadm's own only the flags that [Plain] and
// an upgrade take away. A second run says "unchanged"; a kubelet that does not come back gets its former flags.
package kubelet
