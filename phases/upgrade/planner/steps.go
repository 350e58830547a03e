package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// order lists the steps. API servers come first, all of them: nothing may be newer than the API server that it asks,
// and through a load balancer that may be any. Then the cloud-controller-manager, then kubelets.
func (p *planner) order() {
	controlPlanes, workers := p.byRole()
	p.removals()
	apiServers := func() bool { return p.apiServers(controlPlanes) }
	if p.Via != "" {
		apiServers = func() bool { return p.fromHere(controlPlanes, workers) }
	}
	if !apiServers() { // the last of its steps brings the manager along
		p.manager(controlPlanes)
	}
	for _, n := range controlPlanes {
		p.kubelet(n)
	}
	for _, n := range workers {
		p.kubelet(n)
	}
	if len(p.plan.Steps) > 0 {
		p.step("", "look whether all is well, and whether a Service still answers", "ccmadm status")
	}
}

func (p *planner) step(node, what string, commands ...string) {
	p.plan.Steps = append(p.plan.Steps, Step{Node: node, What: what, Commands: commands})
}

// byRole puts this machine in front of the control planes.
func (p *planner) byRole() (controlPlanes, workers []Node) {
	for _, n := range p.Nodes {
		switch {
		case !n.ControlPlane:
			workers = append(workers, n)
		case n.Name == p.Here:
			controlPlanes = slices.Insert(controlPlanes, 0, n)
		default:
			controlPlanes = append(controlPlanes, n)
		}
	}
	return controlPlanes, workers
}

// removals are of what would end a component of the target.
func (p *planner) removals() {
	for _, f := range p.plan.Findings {
		if f.ID == finding.MachineLacks && f.Next != "" {
			p.step(strings.TrimPrefix(f.Object, "Node/"), f.Message, f.Next)
		}
	}
	ids := []finding.ID{"A4", "A5", "A6", "A7", finding.FlagGone, finding.GateGone}
	for _, f := range p.plan.Findings {
		if f.Severity == finding.SeverityError && slices.Contains(ids, f.ID) {
			p.step("", "remove it from "+cmp.Or(f.Object, f.File)+": "+f.Message) // a patch is a file
		}
	}
}

// apiServers: the first upgrade is `apply`, unless the configuration is of the target already: then each is `node`. It
// tells whether there is any.
func (p *planner) apiServers(controlPlanes []Node) bool {
	before := len(p.plan.Steps)
	applied := !p.cluster.LessThan(p.target)
	for _, n := range controlPlanes {
		known := parsed(n.APIServer) != nil
		follows := applied && p.older(n.APIServer) // whatever was cut short here, another one has been the first since
		cut := n.Name == p.Here && p.CutShort != "" && !follows
		if applied && known && !p.older(n.APIServer) && !cut {
			continue
		}
		what, command := "upgrade the control plane", "ccmadm upgrade node"
		if !known { // the command says so where nothing is to be done
			what += ", whose API server's version is not seen"
		}
		switch {
		case !applied:
			command, applied = "ccmadm upgrade apply "+p.plan.Then, true
		case cut:
			what, command = "finish the upgrade that was interrupted or is partial", p.CutShort
		}
		if n.Name != p.Here || !p.plan.kubeadmFits() {
			what = "install kubeadm " + p.plan.Then + ", and " + what
		}
		p.step(n.Name, what, command)
	}
	return len(p.plan.Steps) > before
}

// manager brings the cloud-controller-manager to its release, and the record with it.
func (p *planner) manager(controlPlanes []Node) {
	m := p.plan.Manager
	static := m.Mode == string(config.ModeStaticPod)
	moves := m.Then != "" && m.Then != m.Now
	recorded := parsed(p.Record.KubernetesVersion)
	if len(controlPlanes) == 0 || m.Mode == string(config.ModeManual) {
		return
	}
	first := controlPlanes[0].Name
	switch {
	case moves:
		p.step(first, "bring the cloud-controller-manager to "+m.Then+", and the record with it",
			"printf 'apiVersion: "+v1alpha1.APIVersion+"\\nkind: "+config.ConfigKind+"\\ncontrollerManager: {image: \""+m.Then+
				"\"}\\n' > upgrade.yaml", "ccmadm apply -f upgrade.yaml")
	case recorded != nil && recorded.LessThan(p.target):
		p.step(first, "write the version into the cluster's record", "ccmadm apply")
	}
	if !static {
		return
	}
	for _, n := range controlPlanes {
		lags := n.Manager != "" && n.Manager != m.Then && m.Then != ""
		if n.Name != first && (moves || lags) || n.Name == first && !moves && lags {
			p.step(n.Name, "bring this machine's cloud-controller-manager there, too", "ccmadm apply")
		}
	}
}

func (p *planner) kubelet(n Node) {
	if !p.older(n.Kubelet) {
		return
	}
	commands := []string{
		fmt.Sprintf("kubectl drain %s --ignore-daemonsets", n.Name),
		"systemctl daemon-reload && systemctl restart kubelet",
		"kubectl uncordon " + n.Name,
	}
	if !n.Schedulable {
		commands[2] += " # unless it is to stay cordoned"
	}
	what := "install kubelet and kubectl " + p.plan.Then + " between the drain and the restart"
	if !n.ControlPlane && (p.Via == "" || p.Told[n.Name].Skipped) {
		commands = slices.Insert(commands, 0, "ccmadm upgrade node")
		what = "install kubeadm " + p.plan.Then + "; " + what
	}
	p.step(n.Name, what, commands...)
}
