package adoption

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Adopt lists the phases of `ccmadm adopt` in their order. Those that init has are the same ones.
func Adopt() []workflow.Phase {
	return []workflow.Phase{
		adoptPreflight(),
		formerProvider(),
		held(begin()), // from here on leave knows what to take back
		held(dropsOthersFiles(manager.CloudConfig())),
		held(manager.RBAC()),
		held(manager.Addon()),
		held(manager.NodeAgent()),
		held(manager.Rollout()), // before any kubelet is touched: what does not run here would keep every node waiting
		adoptNodes(),
		cleanKubeadm(),
		lifecycle(), // only now may a Node be deleted whose machine is gone
		resolved(manager.Record()),
		adopted(),
	}
}

// held runs a phase as if the lifecycle were off, unless the cluster's record says that it is on already.
func held(p workflow.Phase) workflow.Phase {
	run := p.Run
	p.Run = func(ctx context.Context, r *workflow.Run) error {
		s, err := r.Settings(ctx)
		if err != nil {
			return err
		}
		off := s.Recorded == nil || s.ChangesProvider() || s.Recorded.Configuration.Lifecycle == config.LifecycleOff
		return holdLifecycle(s, off, func() error { return run(ctx, r) })
	}
	return p
}

// resolved runs a phase with the lifecycle that is wanted, and with it off as long as the provider does not know each
// node.
func resolved(p workflow.Phase) workflow.Phase {
	run := p.Run
	p.Run = func(ctx context.Context, r *workflow.Run) error {
		s, err := r.Settings(ctx)
		if err != nil {
			return err
		}
		unknown, err := adoptionOf(r).unresolved(ctx, r)
		if err != nil {
			return err
		}
		return holdLifecycle(s, len(unknown) > 0, func() error { return run(ctx, r) })
	}
	return p
}

// holdLifecycle runs one phase with the lifecycle held or not. The phases after it decide for themselves.
func holdLifecycle(s *settings.Settings, held bool, run func() error) error {
	s.LifecycleHeld = held
	defer func() { s.LifecycleHeld = false }()
	return run()
}

// begin is the record before there is anything that it speaks of. It says that no Node may be deleted.
func begin() workflow.Phase {
	p := manager.Record()
	p.Name, p.Short = "begin", "Publish the cluster's settings, with the lifecycle off as long as nodes are to follow"
	return p
}

const lifecycleStaysOff = "stays off, as the cluster has it: ccmadm apply -f FILE with lifecycle: Guarded switches it on"

func lifecycle() workflow.Phase {
	return workflow.Phase{
		Name:  "lifecycle",
		Short: "Let the cloud-controller-manager delete Nodes whose machine is gone, once it knows every node",
		Long:  "Reads the Nodes. Writes the permissions and the workload as the settings have them, and waits for it.",
		Only:  workflow.ManagedModes(),
		Plan: func(ctx context.Context, r *workflow.Run) (string, error) {
			if s, err := r.Settings(ctx); err != nil || s.Lifecycle == config.LifecycleOff {
				return lifecycleStaysOff, err
			}
			return "would switch the lifecycle on, once every node is initialized", nil
		},
		Run: func(ctx context.Context, r *workflow.Run) error {
			s, err := r.Settings(ctx)
			if err != nil {
				return err
			}
			if s.Lifecycle == config.LifecycleOff { // the phases before have gone by it
				r.Sayf(lifecycleStaysOff)
				return nil
			}
			unknown, err := adoptionOf(r).unresolved(ctx, r)
			if err != nil {
				return err
			}
			if len(unknown) > 0 {
				r.Sayf("stays off: the provider does not know %s; the same command again, once it does",
					strings.Join(unknown, ", "))
				return nil
			}
			for _, p := range []workflow.Phase{manager.RBAC(), manager.Addon(), manager.Rollout()} {
				if err := p.Run(ctx, r); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// unresolved names the nodes that are not initialized, and, before the lifecycle has ever been on, those that have not
// followed: a provider ID of former days may be of a machine that the cloud no longer knows.
func (a *Adoption) unresolved(ctx context.Context, r *workflow.Run) ([]string, error) {
	s, err := r.Settings(ctx)
	if err != nil {
		return nil, err
	}
	client, err := workflow.Connect(r.Env, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var names []string
	for i := range list.Items {
		n := &list.Items[i]
		left := !fleet.IsExternal(n) || slices.Contains(a.Skip, n.Name)
		if !workflow.IsInitialized(n) || left && awaitsLifecycle(s) {
			names = append(names, n.Name)
		}
	}
	return names, nil
}

// adopted notes on this machine that kubeadm has finished here, whoever ran it: `ccmadm init` runs no half of it again. A
// control plane that came by `ccmadm join` keeps its role.
func adopted() workflow.Phase {
	return workflow.Phase{
		Name:  "machine",
		Short: "Note on this machine that it has a cluster",
		Long:  "Writes " + machine.StateFile + ".",
		Plan:  func(context.Context, *workflow.Run) (string, error) { return "would write " + machine.StateFile, nil },
		Run: func(_ context.Context, r *workflow.Run) error {
			if err := noteAdopted(r.Host); err != nil {
				return err
			}
			r.Sayf("adopted: `ccmadm status` shows the nodes, `ccmadm init phase show-join-command` how further machines join")
			return nil
		},
	}
}

func noteAdopted(h *workflow.Host) error {
	s, err := workflow.MachineState(h.Env)
	if err != nil {
		return err
	}
	if s.Role == "" {
		if s.NodeName, err = workflow.NodeName(h); err != nil {
			return err
		}
		s.Role = string(h.Role)
	}
	s.Stage, s.Initialized = state.StageFinished, true
	return s.Write(h.Machine)
}
