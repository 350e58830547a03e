package upgrade

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// decide says what this run does: whether kubeadm's half is left, and whether the manager's turn has come.
func (u *Upgrade) decide(ctx context.Context, env *workflow.Env, facts *planner.Facts, plan *planner.Plan, resumed bool) error {
	marked, err := u.upgradedHere(env)
	if err != nil {
		return err
	}
	cluster, err := version.ParseSemantic(facts.Cluster)
	if err != nil {
		return err
	}
	s, err := workflow.MachineState(env)
	if err != nil {
		return err
	}
	there, err := u.wholeByHand(env.Machine, facts)
	if err != nil {
		return err
	}
	u.kubeadm = !marked && (resumed || s.Upgrading != "" || !there || cluster.LessThan(u.target))
	mode := facts.Record.Configuration.Mode
	if mode == config.ModeManual {
		return nil
	}
	asksItself := false
	if mode == config.ModeStaticPod {
		asksItself = manager.AsksOwnServer(env.Machine)
	}
	if !asksItself {
		u.waits = olderThan(facts, u.target)
	}
	if len(u.waits) > 0 {
		u.next = facts.Image
		env.Sayf("the cloud-controller-manager stays at %s: the API servers of %s come first", plan.Manager.Now,
			strings.Join(u.waits, ", "))
		return ctx.Err()
	}
	u.imageBy = plan.Manager.By
	u.manager, u.moves = plan.Manager.Then, plan.Manager.Then != plan.Manager.Now || managerLags(facts, plan)
	return ctx.Err()
}

// wholeByHand tells whether somebody has run all of kubeadm's upgrade here. The API server is not its last word: the
// other static pods follow, and behind the last machine kube-proxy.
func (u *Upgrade) wholeByHand(m *machine.Machine, facts *planner.Facts) (bool, error) {
	target := u.target
	own, ok := apiServerOf(facts, facts.Here)
	if !ok || own.LessThan(target) {
		return false, nil
	}
	for _, c := range []planner.Component{planner.ControllerManager, planner.Scheduler} {
		pod, err := record.ReadStaticPod(m, filepath.Join(machine.ManifestDir, string(c)+".yaml"))
		if err != nil {
			return false, err
		}
		if pod == nil {
			continue
		}
		if v := manager.VersionOf(pod, c); v != nil && v.LessThan(target) {
			return false, nil
		}
	}
	proxy, err := version.ParseSemantic(facts.Proxy)
	if err != nil || !proxy.LessThan(target) {
		return true, nil //nolint:nilerr // none, or one of somebody else's
	}
	return slices.ContainsFunc(facts.Nodes, func(n planner.Node) bool { // then it waits for another control plane
		v, seen := apiServerOf(facts, n.Name)
		return n.ControlPlane && (!seen || v.LessThan(target))
	}), nil
}

// cutShortHere is the command that goes on with what kubeadm has begun here, and not finished; empty: nothing.
func cutShortHere(env *workflow.Env, target *version.Version) (string, error) {
	s, err := workflow.MachineState(env)
	if err != nil {
		return "", err
	}
	apply, node := Upgrade{target: target, Version: "v" + target.String()}, Upgrade{target: target}
	switch s.Upgrading {
	case apply.command():
		return "ccmadm " + apply.command(), nil
	case node.command():
		return "ccmadm upgrade node", nil
	}
	return "", nil
}

// managerLags tells whether this machine's static pod is of another image.
func managerLags(facts *planner.Facts, plan *planner.Plan) bool {
	for _, n := range facts.Nodes {
		if n.Name == facts.Here {
			return n.Manager != "" && n.Manager != plan.Manager.Then
		}
	}
	return false
}

func apiServerOf(facts *planner.Facts, node string) (*version.Version, bool) {
	for _, n := range facts.Nodes {
		if n.Name == node {
			v, err := version.ParseSemantic(n.APIServer)
			return v, err == nil
		}
	}
	return nil, false
}

// olderThan are the other control planes whose API server is of an older minor version, or of one that is not seen.
func olderThan(facts *planner.Facts, target *version.Version) []string {
	var names []string
	for _, n := range facts.Nodes {
		if !n.ControlPlane || n.Name == facts.Here {
			continue
		}
		v, err := version.ParseSemantic(n.APIServer)
		if err != nil || v.Major() == target.Major() && v.Minor() < target.Minor() {
			names = append(names, n.Name)
		}
	}
	return names
}
