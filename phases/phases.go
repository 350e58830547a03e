// Package phases lists the phases of `ccmadm init` and `ccmadm join`.
//
// Start at [Init] and [Join]: the lists are the architecture. Those of apply, adopt, leave and upgrade stand first in the
// packages manager, adoption and upgrade. A [workflow.Phase] is a value; [workflow.Bind] gives each its sub-command.
//
//	settings -> workflow -> record -> kubelet -> fleet -> manager -> bootstrap, adoption, upgrade -> phases
//
// Each of these packages knows those to its left, none to its right, and the last three, the operations, do not know each other.
// Beside them, journal has the table of all operations, and rollback finds the way back from a run of any of them. A flag to
// a manifest: cmd/ccmadm declares it into [workflow.Inputs], [workflow.New] lays it over the user's file, package record
// lays that over the record once, package manager makes of it what the templates vary in, and manifests renders it.
//
// ccmadm never edits a file that belongs to kubeadm or to the user, but for flags that leaving and upgrades take away, and never
// runs kubeadm code in its own process: the kubeadm that is installed on the machine does kubeadm's work.
package phases

import (
	"github.com/ccmadm/ccmadm/phases/bootstrap"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Init lists the phases of `ccmadm init` in their order.
func Init() []workflow.Phase {
	return []workflow.Phase{
		bootstrap.InitPreflight(),
		bootstrap.KubeadmConfig(),
		bootstrap.ControlPlaneVIP(), // the second half of kubeadm, and all after it, reach the API server at this address
		bootstrap.KubeadmControlPlane(),
		manager.Kubeconfig(), // signed by the CA that kubeadm has made
		manager.ControlPlane(),
		manager.CloudConfig(), // before the CCM may do anything: its first reading of an inventory finds one
		manager.RBAC(),        // as early as the API server answers: the CCM initializes the node while kubeadm finishes
		bootstrap.KubeadmFinish(),
		manager.Addon(),
		manager.NodeAgent(),
		manager.Record(),
		bootstrap.WaitNodes(),
		bootstrap.ShowJoinCommand(),
	}
}

// Join lists the phases of `ccmadm join` in their order.
func Join() []workflow.Phase {
	return []workflow.Phase{
		bootstrap.JoinPreflight(),
		record.FetchRecord(),
		kubelet.Phase(),
		bootstrap.KubeadmJoin(),
		manager.JoinKubeconfig(), // the CA's key has arrived by now, if this is a control plane
		manager.JoinControlPlane(),
		bootstrap.JoinControlPlaneVIP(),
		bootstrap.WaitNodes(),
	}
}
