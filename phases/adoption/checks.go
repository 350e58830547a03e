package adoption

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// checkAdoptable refuses what adoption does not do.
func checkAdoptable(ctx context.Context, r *workflow.Run) error {
	if err := refuseCutJoin(ctx, r.Env); err != nil {
		return err
	}
	s, err := r.Settings(ctx)
	if err != nil {
		return err
	}
	switch {
	case s.Recorded != nil && (s.Recorded.Configuration.Mode != s.Mode || s.Mode == config.ModeStaticPod):
		return finding.Refusedf("adopt in mode %s: the cluster's record says %s", s.Mode, s.Recorded.Configuration.Mode).
			WithHint("leave the mode out; `ccmadm apply -f FILE` changes the mode of an adopted cluster")
	case s.Mode != config.ModeDaemonSet && s.Mode != config.ModeDeployment:
		return finding.Refusedf("adopt in mode %s: adopt supports modes DaemonSet and Deployment", s.Mode).
			WithHint("leave the mode out; after adopt, `ccmadm apply -f FILE` with mode: StaticPod changes it")
	case s.Profile.Node.KubeletProviderID:
		return finding.Refusedf("provider %s finds a machine only by the kubelet's --provider-id, which no step sets",
			s.Provider).
			WithHint("on each machine run `ccmadm reset`, then `ccmadm join`, which sets it")
	case s.ControlPlaneVIP.Address != "":
		return finding.Refusedf("adopt with controlPlaneVIP: a VIP can be set only when a cluster is created").
			WithHint("remove controlPlaneVIP from the configuration; nothing was changed")
	}
	return nil
}

// refuseCutJoin finds a control plane whose `ccmadm join` was cut short before kubeadm marked its Node: adopt notes that kubeadm has
// finished here, and then no join would mark it.
func refuseCutJoin(ctx context.Context, env *workflow.Env) error {
	s, err := workflow.MachineState(env)
	if err != nil || s.Role != string(kubeadm.RoleJoin) || s.Stage != state.StageBegun {
		return err
	}
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return err
	}
	node, err := workflow.AskNode(ctx, client, s.NodeName)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ask for Node/%s: %w", s.NodeName, err)
	}
	if err == nil && nodes.IsControlPlane(node) {
		return nil
	}
	return finding.Preflightf("adopt from this machine: its `ccmadm join --control-plane` was cut short, and Node/%s is not marked as a "+
		"control plane", s.NodeName).
		WithHint("run `ccmadm join --control-plane` again first, with its arguments: it resumes; nothing was changed")
}

// examine finds what stands against each node. What a kubelet does not tell is not held against it: its own machine
// does that, when its turn comes.
func (a *Adoption) examine(ctx context.Context, env *workflow.Env, s *settings.Settings, plan []*fleet.Node) error {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(s.Profile.Node.NamePattern)
	if err != nil {
		return fmt.Errorf("read the name pattern of provider %s: %w", s.Provider, err)
	}
	known := schemes(s.Profile)
	told, reports := tellFlags(ctx, client, plan), fleet.ReachBySSH(ctx, env, a.Remote, plan)
	for i, n := range plan {
		problem := func(format string, args ...any) { n.Problems = append(n.Problems, fmt.Sprintf(format, args...)) }
		if n.IP == "" {
			problem("it has no InternalIP to be kept")
		}
		if !pattern.MatchString(n.Name) {
			problem("provider %s wants its name to be %s", s.Provider, s.Profile.Node.Name)
		}
		if n.ProviderID != "" && len(known) > 0 && !slices.ContainsFunc(known, n.HasScheme) {
			problem("its provider ID %s is another provider's, and cannot change", finding.Clean(n.ProviderID))
		}
		if err := examineFlags(ctx, env.Machine, n, told[i], reports[i]); err != nil {
			var known *finding.Error
			if !errors.As(err, &known) {
				return err
			}
			problem("%v", err)
		}
	}
	return nil
}

// tellFlags asks the kubelets of other machines, which from 1.36 on tell their flags; nil: it does not. One that is
// skipped, or not Ready, is not asked.
func tellFlags(ctx context.Context, client kubernetes.Interface, plan []*fleet.Node) []map[string]string {
	names := make([]string, len(plan))
	for i, n := range plan {
		if !n.Here && !n.Skipped && n.Ready {
			names[i] = n.Name
		}
	}
	return nodes.AskEach(ctx, names, func(ctx context.Context, name string) map[string]string {
		if name == "" {
			return nil
		}
		return nodes.KubeletFlags(ctx, client, name)
	})
}

// schemes are what provider IDs of a profile begin with; none where it says no more than in words.
func schemes(p *templates.Profile) []string {
	return regexp.MustCompile(`[a-z0-9]+://`).FindAllString(p.Node.ProviderID, -1)
}

// examineFlags reads this machine's files, and what the kubelet of another told, or over SSH its files.
func examineFlags(ctx context.Context, m *machine.Machine, n *fleet.Node, flags map[string]string, report *kubelet.NodeReport) error {
	switch {
	case n.Here:
		return examineHere(ctx, m, n)
	case report != nil:
		n.Flags, flags = finding.Clean(report.FlagsText()), map[string]string{}
		for _, f := range report.Flags {
			if len(f.From) > 1 && (f.Name == "cloud-provider" || f.Name == "node-ip") {
				return finding.Refusedf("%w", kubelet.SetTwice(f.Name, finding.Clean(strings.Join(f.From, " and "))))
			}
			flags[f.Name] = f.Value
		}
	case flags == nil:
		n.Flags = "not told"
		return nil
	default:
		var set []string
		for _, name := range []string{"cloud-provider", "node-ip"} {
			if value := flags[name]; value != "" {
				set = append(set, "--"+name+"="+finding.Clean(value))
			}
		}
		n.Flags = cmp.Or(strings.Join(set, " "), "none")
	}
	if mode := flags["cloud-provider"]; mode != "" && mode != "external" {
		return finding.Refusedf("its kubelet runs with --cloud-provider=%s", finding.Clean(mode))
	}
	if ip := flags["node-ip"]; ip != "" && ip != n.IP {
		return finding.Refusedf("its kubelet runs with --node-ip=%s, and its Node has %s", finding.Clean(ip), n.IP)
	}
	return nil
}

func examineHere(ctx context.Context, m *machine.Machine, n *fleet.Node) error {
	report, err := kubelet.ShowNode(ctx, m)
	if err != nil {
		return err
	}
	n.Flags = report.FlagsText()
	uses, err := m.KubeletFlags("cloud-provider", "node-ip")
	if err != nil {
		return err
	}
	if err := kubelet.RefuseTwice(uses); err != nil {
		return err
	}
	_, err = kubelet.FlagsToAdd(m, n.IP)
	return err
}
