package planner

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
)

// kubeletsBehind is by how many minors a kubelet may be older than the API server
// (https://kubernetes.io/releases/version-skew-policy/).
const kubeletsBehind = 3

// ParseTarget reads the version that a user named.
func ParseTarget(text string) (*version.Version, error) {
	v, err := version.ParseSemantic(text)
	if err != nil {
		return nil, finding.Usagef("read the version %q: %w", text, err).
			WithHint("name a complete version, as v1.36.3; without one the installed kubeadm's is taken")
	}
	return v, nil
}

// parsed is a version that a component reports, nil where it is none.
func parsed(text string) *version.Version {
	v, err := version.ParseSemantic(text)
	if err != nil {
		return nil
	}
	return v
}

// Older tells whether a version that a component reports is older; what is none is not.
func Older(text string, target *version.Version) bool {
	v := parsed(text)
	return v != nil && v.LessThan(target)
}

// checkTarget finds why the version cannot be reached in one upgrade.
func (p *planner) checkTarget() {
	refuse := func(next, format string, args ...any) {
		f := finding.UpgradeTarget.New("", fmt.Sprintf(format, args...))
		f.Next = next
		p.add(f)
	}
	t := p.target
	if t.PreRelease() != "" {
		refuse("name a release: v"+minorOf(t)+".0", "v%s is a pre-release", t)
	}
	minor := version.MajorMinor(t.Major(), t.Minor())
	if minor.LessThan(version.MustParseGeneric(p.Oldest)) || version.MustParseGeneric(p.Newest).LessThan(minor) {
		refuse("a newer release of ccmadm may know it", "this release of ccmadm knows Kubernetes %s to %s, not %s",
			p.Oldest, p.Newest, minor)
	}
	newest, oldest := p.cluster, p.cluster
	for _, n := range p.Nodes {
		v := parsed(n.APIServer)
		if v == nil {
			continue
		}
		if newest.LessThan(v) {
			newest = v
		}
		if v.LessThan(oldest) {
			oldest = v
		}
	}
	if t.LessThan(newest) {
		refuse("Kubernetes does not go back: restore etcd's backup instead",
			"v%s is older than v%s, which the cluster has", t, newest)
	}
	if t.Major() != oldest.Major() || t.Minor() > oldest.Minor()+1 {
		refuse(fmt.Sprintf("upgrade to 1.%d first", oldest.Minor()+1),
			"v%s is more than one minor version newer than v%s", t, oldest)
	}
	if !oldest.EqualTo(newest) {
		p.add(finding.HalfUpgraded.New("",
			fmt.Sprintf("API servers and kubeadm's configuration are of v%s to v%s", oldest, newest)))
	}
	p.oldest = oldest
}

// checkKubelets finds those that would not be served. Kubeadm itself refuses one that is too old, unless it is forced.
func (p *planner) checkKubelets() {
	skew := func(n Node, format string, args ...any) {
		f := finding.KubeletSkew.New("Node/"+n.Name, fmt.Sprintf(format, args...))
		if !n.ControlPlane {
			f.Severity = finding.SeverityWarning // a worker's kubelet may say what it likes
		}
		p.add(f)
	}
	for _, n := range p.Nodes {
		v := parsed(n.Kubelet)
		switch {
		case v == nil:
		case v.Minor() > p.target.Minor(): // the policy is about minors: a newer patch release is served
			skew(n, "its kubelet is of v%s, newer than v%s", v, p.target)
		case p.oldest.LessThan(v) && v.Minor() > p.oldest.Minor():
			f := finding.KubeletSkew.New("Node/"+n.Name,
				fmt.Sprintf("its kubelet is of v%s, newer than an API server, v%s", v, p.oldest))
			f.Severity = finding.SeverityWarning // it goes with the upgrade
			p.add(f)
		case v.Minor()+kubeletsBehind < p.target.Minor():
			skew(n, "its kubelet is of v%s, more than %d minors older than v%s", v, kubeletsBehind, p.target)
		}
	}
}

// checkJob looks whether the Job can run that kubeadm's preflight makes: it tolerates the taint of control planes, and
// no other. Where every Node is cordoned kubeadm leaves the Job out.
func (p *planner) checkJob() {
	var waits []string
	for _, n := range p.Nodes {
		if !n.Schedulable {
			continue
		}
		if n.Refuses == "" {
			return
		}
		waits = append(waits, n.Name+" has "+n.Refuses)
	}
	if len(waits) == 0 {
		return
	}
	f := finding.NoNodeForJob.New("", "every Node has a taint that the Job does not tolerate: "+inOrder(waits))
	f.Next = "ccmadm status"
	p.add(f)
}
