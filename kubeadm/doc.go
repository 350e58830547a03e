// Package kubeadm is what ccmadm knows of kubeadm: its configuration files, its flags, its binary, and the way in which
// a machine that joins finds its cluster.
//
// Start at [File]: a kubeadm configuration that is edited as text, in the places that must change and nowhere else.
// A file's bytes: [Parse] splits and reads them, [FoldFlags] lays kubeadm's flags over them, [File.SetExternal] makes
// the edits and returns each as a [Change], [File.Bytes] gives them back. [File.Lint] finds what stands in the way, in files
// that ccmadm is not going to write. [Version] asks the installed binary; [Discover] does what `kubeadm join` does
// before it trusts a cluster.
//
// Reads: the files and flags that it is given, the installed kubeadm, ConfigMap kube-public/cluster-info.
// Writes: nothing. Running it twice: an edited file is left as it is.
// It will not: run kubeadm's code in this process, or know anything of ccmadm's own settings.
package kubeadm
