package planner

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/templates"
)

// Plan is what an upgrade changes, what stands in its way, and what is done on which machine, in which order.
type Plan struct {
	// Now is the oldest version of kubeadm's configuration and the API servers, Then the target.
	Now  string `json:"now"`
	Then string `json:"then"`
	// Kubeadm is the installed one's version.
	Kubeadm string `json:"kubeadm,omitempty"`
	// Components are the programs of each Node, and their versions.
	Components []Version `json:"components"`
	// Machines are those that are upgraded from here; none where that is done by hand.
	Machines []Machine `json:"machines,omitempty"`
	// Manager is the cloud-controller-manager.
	Manager ManagerPlan `json:"cloudControllerManager"`
	// Images are those of the target.
	Images []string `json:"images"`
	// Findings are what is wrong; an error blocks the upgrade.
	Findings []finding.Finding `json:"findings"`
	// Steps are what is to be done, in this order.
	Steps []Step `json:"steps"`

	forKubeadm bool
}

// Version is that of a program on a Node.
type Version struct {
	Component Component `json:"component"`
	Node      string    `json:"node"`
	Now       string    `json:"now"`
	Then      string    `json:"then"`
}

// ManagerPlan is about the cloud-controller-manager.
type ManagerPlan struct {
	Mode string `json:"mode"`
	// Now and Then are images; Then is empty where there is none for the target, or where it is the user's affair.
	Now  string `json:"now"`
	Then string `json:"then,omitempty"`
	// By is who has chosen Then.
	By state.ImageBy `json:"by,omitempty"`
	// Serves are the versions of Kubernetes that the present one is for; empty: all, or not known.
	Serves string `json:"serves,omitempty"`
	// Rule says how releases follow those of Kubernetes.
	Rule string `json:"rule,omitempty"`
}

// Step is done on one machine, or anywhere where Node is empty.
type Step struct {
	Node     string   `json:"node,omitempty"`
	What     string   `json:"what"`
	Commands []string `json:"commands,omitempty"`
}

// planner is a plan in the making.
type planner struct {
	Facts
	target, cluster *version.Version
	// oldest is that of the API servers and kubeadm's configuration.
	oldest *version.Version
	plan   *Plan
}

// New makes the plan. Its error is a version that is none.
func New(f Facts) (*Plan, error) {
	target, err := ParseTarget(f.Asked)
	if err != nil {
		return nil, err
	}
	cluster, err := version.ParseSemantic(f.Cluster)
	if err != nil {
		return nil, finding.Errorf("read the version of the live kubeadm configuration: %w", err)
	}
	p := &planner{Facts: f, target: target, cluster: cluster, oldest: cluster, plan: &Plan{
		Then: "v" + target.String(), Kubeadm: f.Kubeadm, Images: []string{}, Findings: []finding.Finding{}, Steps: []Step{},
	}}
	p.checkTarget()
	p.plan.Now = "v" + p.oldest.String()
	if !p.unreachable() {
		p.checkKubelets()
		p.checkMachines()
	}
	p.checkReleases()
	if p.moves() {
		p.checkJob()
	}
	p.checkUses()
	p.checkAhead()
	p.planManager()
	p.plan.Findings = append(append(p.plan.Findings, f.Patches...), f.Troubles...)
	p.listComponents()
	p.listImages()
	if !p.unreachable() {
		p.plan.forKubeadm = p.moves() && p.plan.kubeadmFits()
		p.order()
	}
	slices.SortStableFunc(p.plan.Findings, func(a, b finding.Finding) int { return a.Severity.Compare(b.Severity) })
	return p.plan, nil
}

func (p *planner) add(f finding.Finding) { p.plan.Findings = append(p.plan.Findings, f) }

// Blocked are the findings that have to be gone first.
func (p *Plan) Blocked() []finding.Finding {
	return slices.DeleteFunc(slices.Clone(p.Findings), func(f finding.Finding) bool {
		return f.Severity != finding.SeverityError
	})
}

// ForKubeadm tells whether the installed kubeadm has a plan of its own: there is something for it to do, and it is of
// the version's minor and not older.
func (p *Plan) ForKubeadm() bool { return p.forKubeadm }

// kubeadmFits tells whether the installed kubeadm upgrades to the version: it must not be older, and goes to its own
// minor only.
func (p *Plan) kubeadmFits() bool {
	installed, then := parsed(p.Kubeadm), parsed(p.Then)
	return installed != nil && !installed.LessThan(then) && installed.Minor() == then.Minor()
}

// unreachable tells whether there is no way to the target, so that no order of steps leads there.
func (p *planner) unreachable() bool {
	return slices.ContainsFunc(p.plan.Findings, func(f finding.Finding) bool {
		return f.Severity == finding.SeverityError &&
			slices.Contains([]finding.ID{finding.UpgradeTarget, finding.NoRelease, finding.KubeletSkew}, f.ID)
	})
}

func (p *planner) older(text string) bool { return Older(text, p.target) }

// moves tells whether kubeadm has something to do on a control plane.
func (p *planner) moves() bool {
	return p.cluster.LessThan(p.target) || slices.ContainsFunc(p.Nodes, func(n Node) bool { return p.older(n.APIServer) })
}

func (p *planner) kubeletsMove() bool {
	return slices.ContainsFunc(p.Nodes, func(n Node) bool { return p.older(n.Kubelet) })
}

func (p *planner) listComponents() {
	add := func(c Component, node, now, then string) {
		if now != "" {
			p.plan.Components = append(p.plan.Components, Version{c, node, now, then})
		}
	}
	for _, n := range p.Nodes {
		add(APIServer, n.Name, n.APIServer, p.plan.Then)
		add(Manager, n.Name, n.Manager, cmp.Or(p.plan.Manager.Then, n.Manager))
		add(Kubelet, n.Name, n.Kubelet, p.plan.Then)
	}
}

func (p *planner) listImages() {
	p.plan.Images = append(p.plan.Images, p.Images...)
	if p.plan.Manager.Then == "" {
		return
	}
	profile := *p.Profile
	if !ptr.Deref(p.Record.Configuration.NodeAgent.Enabled, false) && !p.Record.Configuration.WantsRoutes() {
		profile.NodeAgent = nil
	}
	agent := p.Record.Configuration.NodeAgent.Image
	if AgentGoesAlong(p.Profile, p.Record, p.plan.Manager.Then) {
		agent = ""
	}
	images, err := profile.Images(templates.Values{
		Image: p.plan.Manager.Then, Version: p.Version, KubernetesVersion: p.plan.Then,
		ImageRepository: p.Record.ImageRepository,
		NodeAgentImage:  agent,

		ServingCertificates: p.Record.Configuration.WantsServingCertificates(),
	})
	if err != nil { // an agent without a release: the manager's is what is known
		images = []string{p.plan.Manager.Then}
	}
	p.plan.Images = append(p.plan.Images, images...)
}

// inOrder joins names for people.
func inOrder(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	return strings.Join(names, ", ")
}
