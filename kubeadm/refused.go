package kubeadm

import (
	"fmt"
	"slices"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/manifests/edit"
)

// obsoleteAPI is the rule about versions of kubeadm's API.
const obsoleteAPI finding.ID = "A20"

// program is a component by the places where kubeadm's configuration has its arguments.
type program struct {
	name string // kube-apiserver
	path []string
}

// programs are those of a kind of kubeadm's.
func programs(kind string) []program {
	if kind != clusterConfigKind {
		return []program{{"kubelet", []string{"nodeRegistration", "kubeletExtraArgs"}}}
	}
	return []program{
		{"kube-apiserver", argsPath("apiServer")},
		{"kube-controller-manager", argsPath("controllerManager")},
		{"kube-scheduler", argsPath("scheduler")},
		{"etcd", argsPath("etcd")},
	}
}

// release is the minor version that the part is for, as 1.37.
func (p part) release() string { return fmt.Sprintf("1.%d", p.minor) }

// refused reports arguments and feature gates with which the version's components end, by what they print of themselves.
// Those of the time of built-in clouds have rules of their own.
func (l *inspection) refused(p part) {
	for _, program := range programs(p.kind) {
		for _, a := range extraArgs(p.value(program.path...)) {
			if a.name == "feature-gates" {
				for gate, value := range minors.Gates(a.value) {
					refusal, why := l.history.Gate(program.name, gate, value, p.release())
					l.refusedGate(p, a, refusal, why)
				}
				continue
			}
			old := slices.ContainsFunc(cloudFlags(p.kind), func(f cloudFlag) bool {
				return f.name == a.name && slices.Equal(f.component, program.path)
			})
			if _, why := l.history.Flag(program.name, a.name, p.release()); why != "" && !old {
				flag := cloudFlag{component: program.path, name: a.name}
				l.add(finding.FlagGone, p, a.key, why, func() error { return p.drop(flag) })
			}
		}
	}
	if p.kind != clusterConfigKind {
		return
	}
	for _, gate := range gatesOf(p) {
		if _, why := l.history.KubeadmGate(gate.name, p.release()); why != "" {
			l.add(finding.GateGone, p, gate.key, why, nil)
		}
	}
}

// gatesOf are the feature gates of a document, in the form of extra arguments: a mapping of names to values.
func gatesOf(p part) []extraArg { return extraArgs(p.value("featureGates")) }

func (l *inspection) refusedGate(p part, a extraArg, refusal minors.Refusal, why string) {
	switch refusal {
	case minors.Removed, minors.Unknown:
		l.add(finding.GateGone, p, a.key, why, nil)
	case minors.Locked:
		l.add(finding.GateLocked, p, a.key, why, nil)
	case minors.Accepted:
	}
}

// componentConfiguration looks at the feature gates of documents that kubeadm passes on.
func (l *inspection) componentConfiguration(d *document) {
	kind := edit.Scalar(edit.Lookup(d.Root, "kind"))
	component := map[string]string{"KubeletConfiguration": "kubelet", "KubeProxyConfiguration": "kube-proxy"}[kind]
	if component == "" {
		return
	}
	p := part{doc: d, kind: kind, object: kind, minor: l.minor}
	for _, g := range gatesOf(p) {
		refusal, why := l.history.Gate(component, g.name, g.value, p.release())
		l.refusedGate(p, g, refusal, why)
	}
	l.ahead(p)
}

// ahead notes settings that a minor version to come ends.
func (l *inspection) ahead(p part) {
	if mode := p.value("mode"); p.kind == "KubeProxyConfiguration" && edit.Scalar(mode) == "ipvs" {
		l.put(finding.ProxyModeEnds.Ahead(p.minor, "", `mode is "ipvs"`), p, mode)
	}
	if driver := p.value("cgroupDriver"); p.kind == "KubeletConfiguration" && edit.Scalar(driver) != "" {
		f := finding.RuntimeEnds.Ahead(p.minor, "", "cgroupDriver is for a container runtime that does not report its own driver")
		f.Severity = finding.SeverityNote // a kubelet with a newer runtime ignores the field
		l.put(f, p, driver)
	}
}

// readable reports a document of a version of kubeadm's API that kubeadm of the version does not read.
func (l *inspection) readable(d *document) {
	p := part{doc: d, kind: d.kind, object: d.kind, minor: l.minor}
	if !d.isKubeadm() || l.history.ReadsKubeadmAPI(d.apiVersion, p.release()) {
		return
	}
	message := fmt.Sprintf("kubeadm %s does not read %s", p.release(), d.apiVersion)
	if _, last := l.history.KubeadmAPI(d.apiVersion); d.apiVersion == v1beta3 {
		message += fmt.Sprintf("; kubeadm %s is the last that does, and writes it in the new form: "+
			"kubeadm config migrate --old-config OLD --new-config NEW", last)
	}
	l.add(obsoleteAPI, p, edit.Lookup(d.Root, "apiVersion"), message, nil)
}
