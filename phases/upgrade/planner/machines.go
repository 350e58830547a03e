package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Told is what a machine has said of itself to whoever upgrades it from another one.
type Told struct {
	// Asked says that it has answered.
	Asked bool
	// Problem is why it has not, and Next what to do about it; both are empty where it was not asked.
	Problem, Next string
	// Do is what it takes; empty: what it takes in general.
	Do string
	// Skipped says that it is left as it is.
	Skipped bool
	// Kubeadm, Kubelet and Ccmadm are the releases that are installed there; empty: none.
	Kubeadm, Kubelet, Ccmadm string
	// Release is that of the ccmadm that has said this; empty: of one that does not say it.
	Release string
	// Packages is the program that installs packages there; empty: none that is known.
	Packages string
	// Upgraded is the version to which kubeadm has upgraded the machine, under ccmadm.
	Upgraded string
	// Unfinished says that its upgrade to this version was begun, and has not come to its end.
	Unfinished bool
}

// Machine is another machine, and what is done there from here.
type Machine struct {
	Node    string `json:"node"`
	Role    string `json:"role"`
	Kubeadm string `json:"kubeadm,omitempty"`
	Kubelet string `json:"kubelet,omitempty"`
	Ccmadm  string `json:"ccmadm,omitempty"`
	ToDo    string `json:"toDo"`
}

// others are the machines that are upgraded from here, control planes first; none where that is done by hand.
func (p *planner) others() []Node {
	if p.Via == "" {
		return nil
	}
	controlPlanes, workers := p.byRole()
	return slices.DeleteFunc(append(controlPlanes, workers...), func(n Node) bool { return n.Name == p.Here })
}

// left tells whether kubeadm has something to do on a machine.
func (p *planner) left(n Node) bool {
	if p.Told[n.Name].Unfinished {
		return true
	}
	if n.ControlPlane {
		return parsed(n.APIServer) == nil || p.older(n.APIServer)
	}
	return p.older(n.Kubelet) && p.Told[n.Name].Upgraded != p.plan.Then
}

// checkMachines finds what machines lack that are to be upgraded from here. All of it is found before anything begins.
func (p *planner) checkMachines() {
	for _, n := range p.others() {
		t := p.Told[n.Name]
		m := Machine{Node: n.Name, Role: "worker", Kubeadm: t.Kubeadm, Kubelet: t.Kubelet, Ccmadm: t.Ccmadm}
		if n.ControlPlane {
			m.Role = "control plane"
		}
		message, next := p.lacks(n, t)
		switch {
		case t.Skipped:
			m.ToDo = "skipped"
		case message != "":
			f := finding.MachineLacks.New("Node/"+n.Name, message)
			f.Next, f.Do = next, cmp.Or(t.Do, f.Do)
			p.add(f)
			m.ToDo = "cannot: " + message
		case p.left(n):
			m.ToDo = "ccmadm upgrade node"
		case n.ControlPlane:
			m.ToDo = "ccmadm upgrade node looks again"
		default:
			m.ToDo = "nothing"
		}
		if message == "" && !t.Skipped {
			p.checkInstalledKubelet(n, t)
		}
		p.plan.Machines = append(p.plan.Machines, m)
	}
}

// lacks is what keeps a machine from being upgraded from here, and what to do about it.
func (p *planner) lacks(n Node, t Told) (message, next string) {
	then := p.plan.Then
	kubeadm := parsed(t.Kubeadm)
	switch {
	case t.Skipped:
		return "", ""
	case t.Problem != "":
		return t.Problem, t.Next
	case !t.Asked || !n.ControlPlane && !p.left(n):
		return "", ""
	case p.Via == "ssh" && t.Ccmadm != p.Version:
		return fmt.Sprintf("its ccmadm is %s, and here it is %s: over SSH it is the machine's own that works there",
			cmp.Or(t.Ccmadm, "of a release that does not say it"), p.Version), "copy this machine's ccmadm there"
	case p.Via == "pods" && t.Release != p.Version:
		return fmt.Sprintf("the ccmadm of its pod is %s, and here it is %s: it is that which works there",
			cmp.Or(t.Release, "of a release that does not say it"), p.Version), "--node-image has to be of " + p.Version
	case t.Kubeadm == "":
		return "kubeadm is not installed, " + then + " is needed", p.install(n, t)
	case kubeadm == nil || !kubeadm.EqualTo(p.target):
		return "its kubeadm is " + t.Kubeadm + ", not " + then, p.install(n, t)
	}
	return "", ""
}

// install is the command that installs kubeadm on a machine.
func (p *planner) install(n Node, t Told) string {
	release := strings.TrimPrefix(p.plan.Then, "v")
	minor := fmt.Sprintf("v%d.%d", p.target.Major(), p.target.Minor())
	// Each minor has a repository of its own (https://kubernetes.io/blog/2023/08/15/pkgs-k8s-io-introduction/).
	repository := "sed -i -E 's#(/core:/stable:/)v[0-9.]+#\\1" + minor + "#' "
	rpm := " install -y kubeadm-'" + release + "-*' --disableexcludes=kubernetes"
	command := map[string]string{
		"apt-get": repository + "/etc/apt/sources.list.d/* && apt-get update && " +
			"apt-get install -y --allow-change-held-packages kubeadm='" + release + "-*'",
		"dnf": repository + "/etc/yum.repos.d/* && dnf" + rpm,
		"yum": repository + "/etc/yum.repos.d/* && yum" + rpm,
	}[t.Packages]
	switch {
	case command != "":
	case slices.Contains([]string{"amd64", "arm64", "ppc64le", "s390x"}, n.Architecture):
		command = fmt.Sprintf("curl -fLO https://dl.k8s.io/release/%s/bin/linux/%s/kubeadm && install kubeadm /usr/bin/",
			p.plan.Then, n.Architecture)
	default: // a kubelet may say anything, and this is a command line
		command = "https://dl.k8s.io/release/" + p.plan.Then + " has kubeadm"
	}
	return command
}

// checkInstalledKubelet finds a package that came too early: the next restart, whoever asks for it, starts a kubelet
// that is newer than an API server.
func (p *planner) checkInstalledKubelet(n Node, t Told) {
	v := parsed(t.Kubelet)
	if v == nil || !p.older(n.Kubelet) || v.Minor() <= p.oldest.Minor() {
		return
	}
	f := finding.KubeletSkew.New("Node/"+n.Name,
		fmt.Sprintf("kubelet v%s is installed there, newer than an API server, v%s", v, p.oldest))
	f.Severity = finding.SeverityWarning
	f.Next = "do not restart it before the control planes are upgraded"
	p.add(f)
}

// checkReleases finds control planes on which ccmadm is not of this release: what they said, and where they were not
// asked, what their Nodes say. One that has none is of no other release: a pod brings its own.
func (p *planner) checkReleases() {
	releases := map[string]string{}
	for _, n := range p.Nodes {
		switch t := p.Told[n.Name]; {
		case !n.ControlPlane:
		case n.Name == p.Here:
			releases[n.Name] = p.Version
		case t.Asked:
			releases[n.Name] = t.Ccmadm
		default:
			releases[n.Name] = n.Ccmadm
		}
	}
	if f := otherReleases(releases); f != nil {
		p.add(*f)
	}
}

// fromHere is one step that upgrades all machines but those that are skipped, behind what this one has to do by itself.
// It tells whether there is any.
func (p *planner) fromHere(controlPlanes, workers []Node) bool {
	before := len(p.plan.Steps)
	first := p.ownStep(controlPlanes)
	var names, skipped []string
	for _, n := range append(slices.Clone(controlPlanes), workers...) {
		switch {
		case n.Name == p.Here || !p.left(n):
		case p.Told[n.Name].Skipped:
			skipped = append(skipped, n.Name)
		default:
			names = append(names, n.Name)
		}
	}
	what := "upgrade the control plane"
	switch {
	case first && len(names) > 0:
		what += ", and from here " + strings.Join(names, ", ")
	case len(names) > 0:
		what = "upgrade " + strings.Join(names, ", ") + " from here"
	}
	if !p.plan.kubeadmFits() {
		what = "install kubeadm " + p.plan.Then + ", and " + what
	}
	if first || len(names) > 0 {
		command := append([]string{"ccmadm upgrade apply", p.plan.Then, "--via", p.Via}, p.Again...)
		p.step(p.Here, what, strings.Join(command, " "))
	}
	for _, n := range controlPlanes {
		if slices.Contains(skipped, n.Name) {
			p.step(n.Name, "install kubeadm "+p.plan.Then+", and upgrade the control plane", "ccmadm upgrade node")
		}
	}
	return len(p.plan.Steps) > before
}

// ownStep is what this control plane has to do by itself, where another one is the first. It tells whether it is the
// first itself, and has something to do.
func (p *planner) ownStep(controlPlanes []Node) bool {
	const follow = "ccmadm upgrade node"
	i := slices.IndexFunc(controlPlanes, func(n Node) bool { return n.Name == p.Here })
	if p.cluster.LessThan(p.target) || i < 0 {
		return true
	}
	switch {
	case p.older(controlPlanes[i].APIServer):
		p.step(p.Here, "upgrade the control plane", follow)
		return false
	case p.CutShort == follow:
		p.step(p.Here, "finish the upgrade that was interrupted or is partial", follow)
		return false
	}
	return p.CutShort != "" || p.left(controlPlanes[i])
}
