package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/upgrade"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newUpgrade(s workflow.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Upgrade Kubernetes together with the cloud-controller-manager",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newUpgradePlan(s), newUpgradeApply(s), newUpgradeNode(s))
	return cmd
}

// upgradePlan is what the flags of `upgrade plan` say.
type upgradePlan struct {
	output         output.Format
	image          string
	withoutKubeadm bool
	via            string
	remote         fleet.Remote
	again          []string
}

func newUpgradePlan(s workflow.Streams) *cobra.Command {
	var u upgradePlan
	cmd := &cobra.Command{
		Use:   "plan [VERSION] [flags] [-- kubeadm upgrade plan flags]",
		Short: "Show the upgrade plan: target versions, blockers, and steps per node",
		Long: `Runs "kubeadm upgrade plan", and adds what kubeadm does not check: the release of the cloud-controller-manager for the
version, and its skew to every API server; arguments and feature gates that components of the version refuse, in the live
kubeadm configuration, the kubelets' configuration, static pods, the files of this machine's kubelet, the flags that other
kubelets report, and the cluster's record; the images; and the steps, machine by machine. VERSION defaults to that of the
installed kubeadm.

With --via pods or ssh it checks kubeadm, kubelet and ccmadm on each machine. The plan then has the steps of
"ccmadm upgrade apply" with the same flags, and the missing prerequisites of each machine.

It runs on a control plane and changes nothing. It creates only the Job by which kubeadm's own plan checks that pods run, and
with --via pods one pod on each machine, which is removed after its answer.` + usage.ExitStatuses(usage.Endings{
			finding.ExitDone:      "nothing is to be done",
			finding.ExitFound:     "the steps of the plan are to be done",
			finding.ExitPreflight: "something has to be removed or repaired first",
			finding.ExitRefused:   "this machine is not a control plane of a cluster with a record",
		}),
		Example: `  ccmadm upgrade plan v1.36.3
  ccmadm upgrade plan v1.36.3 -o json --without-kubeadm | jq .steps`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := u.output.Check(); err != nil {
				return err
			}
			before := beforeDash(cmd, args)
			if len(before) > 1 {
				return finding.Usagef("upgrade plan takes one version, not %q", before)
			}
			if err := checkParallel(&u.remote); err != nil {
				return err
			}
			u.again = again(cmd.Flags())
			return u.run(cmd.Context(), s, strings.Join(before, ""), args[len(before):])
		},
	}
	u.output.Declare(cmd, output.Text, output.JSON, output.YAML)
	cmd.Flags().StringVar(&u.image, "image", "",
		"the cloud-controller-manager's image for the version, instead of the profile's")
	declareVia(cmd.Flags(), &u.via, &u.remote)
	declareSkip(cmd.Flags(), &u.remote)
	cmd.Flags().BoolVar(&u.withoutKubeadm, "without-kubeadm", false, "leave out kubeadm's own plan, which makes a Job")
	return cmd
}

func (u *upgradePlan) run(ctx context.Context, s workflow.Streams, asked string, rest []string) error {
	if asked != "" {
		if _, err := planner.ParseTarget(asked); err != nil {
			return err
		}
	}
	u.remote.Via = fleet.Via(u.via)
	planned := &upgrade.Upgrade{Version: asked, Image: u.image, Remote: u.remote, Again: u.again}
	o := workflow.Inputs{Role: kubeadm.RoleInit, Existing: true, Operation: planned}
	if err := planned.Check(); err != nil {
		return err
	}
	r, err := workflow.New(ctx, machine.New(), o, s, version)
	if err != nil {
		return usage.Observed(err)
	}
	facts, err := planned.LiveFacts(ctx, r, asked)
	if err != nil {
		return usage.Observed(err)
	}
	plan, err := planner.New(*facts)
	if err != nil {
		return usage.Observed(err)
	}
	var own []byte
	if !u.withoutKubeadm && plan.ForKubeadm() {
		var failed *finding.Finding
		if own, failed, err = upgrade.KubeadmUpgradePlan(ctx, r.Env, plan.Then, rest, !u.output.Is(output.Text)); err != nil {
			return usage.Observed(err)
		}
		if failed != nil {
			facts.Troubles = append(facts.Troubles, *failed)
			if plan, err = planner.New(*facts); err != nil {
				return usage.Observed(err)
			}
		}
	}
	if err := u.show(s, plan, own); err != nil {
		return usage.Observed(err)
	}
	if blocked := plan.Blocked(); len(blocked) > 0 {
		return finding.Preflightf("upgrade to %s: blocked by %s", plan.Then, finding.Count(len(blocked), "finding")).
			WithHint("each has a remedy; ccmadm explain ID has details. Nothing was changed")
	}
	if len(plan.Steps) > 0 {
		return usage.ErrFound
	}
	return nil
}

// show prints the plan; in JSON with kubeadm's own beside it, which in text was streamed.
func (u *upgradePlan) show(s workflow.Streams, plan *planner.Plan, own []byte) error {
	both := struct {
		*planner.Plan
		Own json.RawMessage `json:"kubeadmPlan,omitempty"`
	}{plan, own}
	return u.output.Write(s.Out, output.Object(both), func() error {
		if own != nil {
			fmt.Fprintln(s.Out)
		}
		return plan.WriteText(s.Out)
	})
}
