package record

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// phaseRecord is what a phase that is run by itself goes by: on a control plane that has its cluster, the cluster's
// record. This machine's copy is as old as the last run here, and would bring back the manager of those days. Only the
// copy knows where the machine's own files of the provider are. Until the machine's Node has come through, it is what
// the user corrects, and goes first.
func phaseRecord(ctx context.Context, d *workflow.Data) (*v1alpha1.Record, error) {
	own, err := d.Machine.Record()
	if err != nil {
		return nil, err
	}
	if lives, err := inCluster(d); err != nil || !lives {
		return own, err
	}
	if there, err := d.Machine.Exists(machine.AdminConf); err != nil || d.Role == kubeadm.RoleJoin && !there {
		return own, err // a worker, which runs nothing of the provider
	}
	rec, tried, err := askedRecord(ctx, d)
	switch {
	case err != nil && own != nil && d.WithoutServer:
		return own, nil
	case err != nil:
		return nil, finding.Refusedf("compare with the cluster's record: %w", err).
			WithHint("kubeadm has finished on this machine, whose own copy of the settings may be older than the " +
				"cluster's. Nothing was changed; the same command again, once the API server answers, or --kubeconfig " +
				"with a way to another one")
	case rec == nil || own != nil && !tried:
		return own, nil
	case own != nil && rec.Configuration.Provider == own.Configuration.Provider:
		KeepOwn(d, &rec.Configuration, own.Configuration)
	}
	return rec, refuseOtherAgent(d, rec)
}

// askedRecord is the cluster's record, nil where none is published yet, and whether this machine's Node has come
// through with it.
func askedRecord(ctx context.Context, d *workflow.Data) (rec *v1alpha1.Record, tried bool, err error) {
	rec, err = d.Known.Record.Get(func() (*v1alpha1.Record, error) {
		client, err := workflow.Connect(d, machine.AdminConf)
		if err != nil {
			return nil, err
		}
		rec, err := workflow.AskRecord(ctx, client)
		if apierrors.IsNotFound(err) { // phases one by one publish it last
			return nil, nil
		}
		return rec, err
	})
	if err != nil || rec == nil {
		return nil, false, err
	}
	c := *rec // a phase adds what only this machine knows
	tried, err = Established(ctx, d)
	return &c, tried, err
}

// Established tells whether this machine has its cluster, and its Node has come through: from then on what is in use
// there holds, and is no longer corrected by the same command.
func Established(ctx context.Context, d *workflow.Data) (bool, error) {
	if d.Existing {
		return true, nil
	}
	return d.Known.Established.Get(func() (bool, error) {
		if lives, err := inCluster(d); err != nil || !lives {
			return false, err
		}
		client, err := workflow.Connect(d, machine.AdminConf)
		if err != nil {
			return false, err
		}
		through, err := cameThrough(ctx, d, client)
		if err != nil {
			return false, finding.Refusedf("%w", err).
				WithHint("nothing was changed; the same command again, once the API server answers")
		}
		return through, nil
	})
}

// cameThrough tells whether this machine's Node was initialized. Where no run of ours has seen it, it is asked.
func cameThrough(ctx context.Context, d *workflow.Data, client kubernetes.Interface) (bool, error) {
	s, err := workflow.MachineState(d)
	if err != nil || s.Initialized {
		return err == nil, err
	}
	name, err := workflow.NodeName(d)
	if err != nil {
		return false, err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for Node/%s: %w", name, err)
	}
	return workflow.IsInitialized(node), nil
}

// inCluster tells whether this machine is in a cluster: kubeadm has finished here, whoever has run it.
func inCluster(d *workflow.Data) (bool, error) {
	if done, err := workflow.KubeadmFinished(d); err != nil || done {
		return done, err
	}
	for _, path := range []string{machine.KubeletConf, machine.AdminConf} {
		if there, err := d.Machine.Exists(path); err != nil || !there {
			return false, err
		}
	}
	return workflow.RoleOfMachine(d.Machine) == kubeadm.RoleJoin, nil
}

// keepOwnNodeIP has a phase that is run by itself go by this machine's own address.
func keepOwnNodeIP(d *workflow.Data, s *settings.Settings) error {
	if !d.Single || d.Existing {
		return nil
	}
	own, err := d.Machine.Record()
	if err == nil && own != nil {
		s.NodeIP = cmp.Or(own.Configuration.NodeIP, s.NodeIP)
	}
	return err
}

// refuseOtherManager keeps a phase that is run by itself from giving a cluster that lives a second manager, or taking
// the permissions of the one that it has: a change of provider or mode is one plan for all machines, not a phase of one.
func refuseOtherManager(d *workflow.Data, rec *v1alpha1.Record) error {
	done, err := inCluster(d)
	lives := done && rec != nil && d.Single && !d.Existing && d.Role == kubeadm.RoleInit
	if err != nil || !lives || rec.Configuration.Mode == v1alpha1.ModeManual {
		return err // in mode Manual the manager is the user's affair, by whatever means
	}
	said := v1alpha1.CloudConfiguration{Provider: d.Said.Provider, Mode: d.Said.Mode}
	return RefuseContradictions("init", said, rec)
}

// refuseOtherAgent keeps a phase from bringing a node agent, or routes, that the cluster's record does not know: the
// next run would remove them.
func refuseOtherAgent(d *workflow.Data, rec *v1alpha1.Record) error {
	if d.Role != kubeadm.RoleInit || rec.Configuration.Mode == v1alpha1.ModeManual {
		return nil
	}
	said := v1alpha1.CloudConfiguration{Routes: d.Said.Routes}
	said.NodeAgent.Enabled = d.Said.NodeAgent.Enabled
	return RefuseContradictions("init", said, rec)
}
