package record

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// KeepOwn keeps what only this machine's copy says: where the provider's files were read from, all or, in a cluster
// that lives, one by one; there its own address, too.
func KeepOwn(env *workflow.Env, kept *config.CloudConfiguration, before config.CloudConfiguration) {
	if !env.Existing {
		if kept.CloudConfig.File == "" && kept.Inventory == "" && kept.Credentials == nil {
			kept.CloudConfig, kept.Inventory, kept.Credentials = before.CloudConfig, before.Inventory, before.Credentials
		}
		return
	}
	kept.NodeIP = before.NodeIP
	kept.CloudConfig.File = cmp.Or(kept.CloudConfig.File, before.CloudConfig.File)
	kept.Inventory = cmp.Or(kept.Inventory, before.Inventory)
	for _, c := range before.Credentials {
		if !slices.ContainsFunc(kept.Credentials, func(k config.Credential) bool { return k.Key == c.Key }) {
			kept.Credentials = append(slices.Clone(kept.Credentials), c)
		}
	}
}

// ClusterNodeIP is the policy that holds for other machines too: an address is this machine's own.
func ClusterNodeIP(policy string) string {
	if _, err := netip.ParsePrefix(policy); err == nil || policy == config.NodeIPDefault {
		return policy
	}
	return config.NodeIPAuto
}

// WriteRecord keeps what this run was told, for phases that are called by themselves later.
func WriteRecord(env *workflow.Env, rec *state.Record) error {
	data, err := rec.Encode()
	if err != nil {
		return err
	}
	return env.Write(machine.File{Path: machine.RecordFile, Data: data, Mode: 0o600})
}

// ClusterRecord is the record of the cluster that this control plane is one of already, or nil where it is none yet. What
// was never published, or deleted, is known from this machine's own copy.
func ClusterRecord(ctx context.Context, r *workflow.Run) (*state.Record, error) {
	done, err := workflow.KubeadmFinished(r.Host)
	if err != nil || !done {
		return nil, err
	}
	rec, err := publishedRecord(ctx, r)
	if err != nil || rec != nil {
		return rec, err
	}
	if rec, err = r.Machine.Record(); err != nil || rec == nil {
		return nil, err
	}
	return rec, forgetUntried(ctx, r, rec)
}

// publishedRecord is the one in the cluster, or nil where there is none. Without an answer nothing is changed: the machine
// may be one that lives.
func publishedRecord(ctx context.Context, r *workflow.Run) (*state.Record, error) {
	return r.Cache.Record.Get(func() (*state.Record, error) {
		client, err := workflow.Connect(r.Env, machine.AdminConf)
		if err != nil {
			return nil, finding.Refusedf("compare with the cluster's record: %w", err).
				WithHint("kubeadm has finished on this machine, so ccmadm changes nothing before it has read the cluster's record. If you ran " +
					"`kubeadm reset`, run `ccmadm reset`, too. Nothing was changed")
		}
		rec, err := workflow.AskRecord(ctx, client)
		if apierrors.IsNotFound(err) {
			return nil, nil // not published: the run that made the cluster was cut short before
		}
		if err == nil {
			return rec, forgetUntried(ctx, r, rec)
		}
		return nil, finding.Refusedf("compare with the cluster's record: %w", err).
			WithHint("kubeadm has finished on this machine, so ccmadm changes nothing before it has read the cluster's record. Check the " +
				"API server: crictl ps -a | grep kube-apiserver; journalctl -u kubelet. Nothing was changed")
	})
}

// forgetUntried takes out of the record what no node has come through with yet: until then the same command, corrected,
// is how an image that cannot be pulled is replaced. Whether this machine's node has come through is asked, where no run of
// ours has seen it.
func forgetUntried(ctx context.Context, r *workflow.Run, rec *state.Record) error {
	s, err := workflow.MachineState(r.Env)
	if err != nil || s.Stage != state.StageFinished {
		return err
	}
	through, err := Established(ctx, r)
	if err != nil {
		return err
	}
	if through {
		return workflow.NoteInitialized(r.Host)
	}
	rec.Configuration.ControllerManager, rec.Configuration.NodeAgent.Image = config.ControllerManager{}, ""
	return nil
}
