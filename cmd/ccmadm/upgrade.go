package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
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
		Short: "Upgrade Kubernetes, the cloud-controller-manager with it",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newUpgradePlan(s), newUpgradeApply(s), newUpgradeNode(s))
	return cmd
}

// upgradePlan is what the flags of `upgrade plan` say.
type upgradePlan struct {
	output, image  string
	withoutKubeadm bool
	via            string
	remote         fleet.Remote
	again          []string
}

func newUpgradePlan(s workflow.Streams) *cobra.Command {
	var u upgradePlan
	cmd := &cobra.Command{
		Use:   "plan [VERSION] [flags] [-- kubeadm upgrade plan flags]",
		Short: "Show what an upgrade changes, what stands in its way, and what is done where in which order",
		Long: `Runs "kubeadm upgrade plan", and shows what that does not know: the release of the cloud-controller-manager that goes
with the version, and its skew to every API server; arguments and feature gates that components of the version refuse, in
the live kubeadm configuration, the kubelets' configuration, static pods, the files of this machine's kubelet, what other
kubelets tell of themselves, and the cluster's record; the images; and the steps, machine by machine. VERSION is that of the
installed kubeadm where it is left out.

With --via pods or ssh each machine is asked for its kubeadm, kubelet and ccmadm, and the plan has what
"ccmadm upgrade apply" with the same flags would do there, and what is missing where.

It runs on a control plane and changes nothing, but for the Job that kubeadm's own plan makes to see whether pods run,
and with --via pods a pod on each machine that is gone behind its answer.` + exitStatuses(
			ending{finding.ExitDone, "nothing is to be done"}, ending{finding.ExitFound, "the steps of the plan are to be done"},
			ending{finding.ExitPreflight, "something has to be removed or repaired first"},
			ending{finding.ExitRefused, "this machine is not a control plane of a cluster with a record"}),
		Example: `  ccmadm upgrade plan v1.36.3
  ccmadm upgrade plan v1.36.3 -o json --without-kubeadm | jq .steps`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(u.output); err != nil {
				return err
			}
			before := beforeDash(cmd, args)
			if len(before) > 1 {
				return finding.Usagef("upgrade plan takes one version, not %q", before)
			}
			u.again = again(cmd.Flags())
			return u.run(cmd.Context(), s, strings.Join(before, ""), args[len(before):])
		},
	}
	cmd.Flags().StringVarP(&u.output, "output", "o", "text", "text or json")
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
		return observed(err)
	}
	facts, err := planned.LiveFacts(ctx, r, asked)
	if err != nil {
		return observed(err)
	}
	plan, err := planner.New(*facts)
	if err != nil {
		return observed(err)
	}
	var own []byte
	if !u.withoutKubeadm && plan.ForKubeadm() {
		var failed *finding.Finding
		if own, failed, err = upgrade.KubeadmUpgradePlan(ctx, r.Env, plan.Then, rest, u.output == "json"); err != nil {
			return observed(err)
		}
		if failed != nil {
			facts.Troubles = append(facts.Troubles, *failed)
			if plan, err = planner.New(*facts); err != nil {
				return observed(err)
			}
		}
	}
	if err := u.show(s, plan, own); err != nil {
		return observed(err)
	}
	if blocked := plan.Blocked(); len(blocked) > 0 {
		return finding.Preflightf("upgrade to %s: %d findings are in the way", plan.Then, len(blocked)).
			WithHint("each says what to do; ccmadm lint --explain ID says more. Nothing was changed")
	}
	if len(plan.Steps) > 0 {
		return errFound
	}
	return nil
}

// show prints the plan; in JSON with kubeadm's own beside it, which in text was streamed.
func (u *upgradePlan) show(s workflow.Streams, plan *planner.Plan, own []byte) error {
	if u.output == "json" {
		return printJSON(s.Out, struct {
			*planner.Plan
			Own json.RawMessage `json:"kubeadmPlan,omitempty"`
		}{plan, own})
	}
	if own != nil {
		fmt.Fprintln(s.Out)
	}
	return plan.WriteText(s.Out)
}
