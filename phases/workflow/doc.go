// Package workflow runs phases: one after the other, each by itself, as a dry run, and as steps of the journal.
//
// Start at [Phase], a step of an operation, and at what it is given: [Env] is where it works and how, [Host] is the machine
// as kubeadm knows it, [Run] has what the command line says and what the run has found. Each embeds the one before, and a
// function takes the smallest that it needs. [Bind] puts a list of phases on kubeadm's workflow runner, which gives each its
// sub-command, --skip-phases and help text; [Run.Do] runs a list without it. An [Operation] decides what differs between
// init, join, apply, adopt, leave and upgrade: how settings are resolved, and when a phase is a step of the journal.
//
// Reads: kubeadm configuration and flags, what was done on this machine, the cluster. Writes: the journal, through package
// journal, and whatever a phase asks for: files through the machine, objects by server-side apply. What passes from one
// phase to a later one is on disk or in the cluster: each phase runs alone in a fresh process.
package workflow
