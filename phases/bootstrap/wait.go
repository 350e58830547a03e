package bootstrap

import (
	"context"
	"fmt"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// WaitNodes waits until this machine's Node is initialized, or says why it is not.
func WaitNodes() workflow.Phase {
	return workflow.Phase{
		Name:  "wait",
		Short: "Wait until the node is initialized, or say why it is not",
		Long:  "Reads this machine's Node, the cloud-controller-manager's pods, its Lease and Events. Writes nothing. Does not wait for the node to be Ready, which takes a CNI plugin.",
		Plan: func(ctx context.Context, r *workflow.Run) (string, error) {
			s, err := r.Settings(ctx)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("would wait up to %s for this node", s.Wait.Timeout.Duration), nil
		},
		Run: func(ctx context.Context, r *workflow.Run) error {
			s, err := r.Settings(ctx)
			if err != nil {
				return err
			}
			if s.Mode == config.ModeManual {
				r.Sayf("mode Manual: `ccmadm wait` waits, once your cloud-controller-manager runs")
				return nil
			}
			name, err := workflow.NodeName(r.Host)
			if err != nil {
				return err
			}
			client, err := workflow.Connect(r.Env, workflow.NodeConf(r.Host))
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, s.Wait.Timeout.Duration)
			defer cancel()
			wanted := nodes.WaitOptions{Nodes: []string{name}, Until: nodes.Addressed, Lease: s.Profile.LeaseName()}
			if err := workflow.Wait(ctx, client, wanted, nodes.NewDisplay(r.Output, r.Out)); err != nil {
				return err
			}
			if r.Role == kubeadm.RoleInit {
				if err := manager.SayUnlabelled(ctx, r.Env, client); err != nil {
					r.Sayf("warning, it is not known whether a control plane has lost its label: %v", err)
				}
			}
			return workflow.NoteInitialized(r.Host)
		},
	}
}
