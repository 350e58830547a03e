package record

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// phaseRecord is what a phase that is run by itself goes by: on a control plane that has its cluster, the cluster's
// record. This machine's copy is as old as the last run here, and would bring back the manager of those days. Only the
// copy knows where the machine's own files of the provider are. Until the machine's Node has come through, it is what
// the user corrects, and goes first.
func phaseRecord(ctx context.Context, r *workflow.Run) (*state.Record, error) {
	own, err := r.Machine.Record()
	if err != nil {
		return nil, err
	}
	if lives, err := inCluster(r.Host); err != nil || !lives {
		return own, err
	}
	if there, err := r.Machine.Exists(machine.AdminConf); err != nil || r.Role == kubeadm.RoleJoin && !there {
		return own, err // a worker, which runs nothing of the provider
	}
	rec, tried, err := askedRecord(ctx, r)
	switch {
	case err != nil && own != nil && r.WithoutServer:
		return own, nil
	case err != nil:
		return nil, finding.Refusedf("compare with the cluster's record: %w", err).
			WithHint("kubeadm has finished on this machine, whose own copy of the settings may be older than the " +
				"cluster's. Nothing was changed; run the same command again when the API server answers, or --kubeconfig " +
				"with a way to another one")
	case rec == nil || own != nil && !tried:
		return own, nil
	case own != nil && rec.Configuration.Provider == own.Configuration.Provider:
		KeepOwn(r.Env, &rec.Configuration, own.Configuration)
	}
	return rec, refuseOtherAgent(r, rec)
}

// askedRecord is the cluster's record, nil where none is published yet, and whether this machine's Node has come
// through with it.
func askedRecord(ctx context.Context, r *workflow.Run) (rec *state.Record, tried bool, err error) {
	rec, err = r.Cache.Record.Get(func() (*state.Record, error) {
		client, err := workflow.Connect(r.Env, machine.AdminConf)
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
	tried, err = Established(ctx, r)
	return &c, tried, err
}

// Established tells whether this machine has its cluster, and its Node has come through: from then on what is in use
// there holds, and is no longer corrected by the same command.
func Established(ctx context.Context, r *workflow.Run) (bool, error) {
	if r.Existing {
		return true, nil
	}
	return r.Cache.Established.Get(func() (bool, error) {
		if lives, err := inCluster(r.Host); err != nil || !lives {
			return false, err
		}
		client, err := workflow.Connect(r.Env, machine.AdminConf)
		if err != nil {
			return false, err
		}
		through, err := cameThrough(ctx, r.Host, client)
		if err != nil {
			return false, finding.Refusedf("%w", err).
				WithHint("nothing was changed; run the same command again when the API server answers")
		}
		return through, nil
	})
}

// cameThrough tells whether this machine's Node was initialized. Where no run of ours has seen it, it is asked.
func cameThrough(ctx context.Context, h *workflow.Host, client kubernetes.Interface) (bool, error) {
	s, err := workflow.MachineState(h.Env)
	if err != nil || s.Initialized {
		return err == nil, err
	}
	name, err := workflow.NodeName(h)
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
func inCluster(h *workflow.Host) (bool, error) {
	if done, err := workflow.KubeadmFinished(h); err != nil || done {
		return done, err
	}
	for _, path := range []string{machine.KubeletConf, machine.AdminConf} {
		if there, err := h.Machine.Exists(path); err != nil || !there {
			return false, err
		}
	}
	return workflow.RoleOfMachine(h.Machine) == kubeadm.RoleJoin, nil
}

// keepOwnNodeIP has a phase that is run by itself go by this machine's own address.
func keepOwnNodeIP(r *workflow.Run, s *settings.Settings) error {
	if !r.Single || r.Existing {
		return nil
	}
	own, err := r.Machine.Record()
	if err == nil && own != nil {
		s.NodeIP = cmp.Or(own.Configuration.NodeIP, s.NodeIP)
	}
	return err
}

// refuseOtherManager keeps a phase that is run by itself from giving a cluster that lives a second manager, or taking
// the permissions of the one that it has: a change of provider or mode is one plan for all machines, not a phase of one.
func refuseOtherManager(r *workflow.Run, rec *state.Record) error {
	done, err := inCluster(r.Host)
	lives := done && rec != nil && r.Single && !r.Existing && r.Role == kubeadm.RoleInit
	if err != nil || !lives || rec.Configuration.Mode == config.ModeManual {
		return err // in mode Manual the manager is the user's affair, by whatever means
	}
	said := config.CloudConfiguration{Provider: r.Said.Provider, Mode: r.Said.Mode}
	return RefuseContradictions(InitContradicted(), said, rec)
}

// refuseOtherAgent keeps a phase from bringing a node agent, or routes, that the cluster's record does not know: the
// next run would remove them.
func refuseOtherAgent(r *workflow.Run, rec *state.Record) error {
	if r.Role != kubeadm.RoleInit || rec.Configuration.Mode == config.ModeManual {
		return nil
	}
	said := config.CloudConfiguration{Routes: r.Said.Routes}
	said.NodeAgent.Enabled = r.Said.NodeAgent.Enabled
	return RefuseContradictions(InitContradicted(), said, rec)
}
