// Package record answers what holds in a cluster: its record, this machine's copy of it, the manager that runs, and what
// follows from them for a run, its settings.
//
// Start at [Ordinary], the operation of join and of apply, which other operations embed, and [Initialization], that of init.
// Reads: ConfigMap kube-system/ccmadm-config, this machine's files below /etc/ccmadm, the manager's pods. Writes this
// machine's copy of the record. A cluster that does not answer is an error, never a cluster without a record.
package record
