package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

// remedy says what to run in a cluster that ccmadm has made: where what it rendered was changed or is gone, it renders
// it again. Elsewhere, and where the record asks for what is wrong, a finding keeps its own words.
func (v *view) remedy(f finding.Finding) finding.Finding {
	if m := v.main(); f.ID == "C2" && m != nil && f.Object == m.object {
		f.Next = v.otherWay(m, f.Next)
	}
	if f.ID == finding.PodPending {
		f.Next = v.uncordoned(f.Next)
	}
	machine := v.controlPlane()
	if v.Provider == "" || machine == "" || !v.rendered(&f) {
		return f
	}
	f.Next = "on " + machine + ": ccmadm apply --force"
	if v.JournalMisread != nil { // it would be refused
		f.Next = v.JournalMisread.Next + ", then: " + f.Next
	}
	if v.filesLost(&f) {
		f.Next = "on " + machine + ": ccmadm apply -f FILE, a CloudConfiguration with cloudConfig and credentials"
	}
	return f
}

// filesLost says that the provider's files are gone from the Secret that pods mount, which is the only copy: a run that
// goes by the record would be refused, or render the manager to do without.
func (v *view) filesLost(f *finding.Finding) bool {
	m := v.main()
	return f.ID == finding.SecretMissing && strings.Contains(f.Message, `"`+v1alpha1.CloudConfigName+`"`) ||
		f.ID == "D2" && strings.Contains(f.Message, templates.ConfigDir+"/") && m != nil && !strings.HasPrefix(m.object, "Pod/")
}

// otherWay gives a manager that goes by the Service another way to the API server: the address that one of them tells.
func (v *view) otherWay(m *manager, otherwise string) string {
	stray := nodes.Strays(v.Nodes)
	for _, p := range v.Masters {
		if stray(&p) {
			continue
		}
		for _, c := range p.Spec.Containers {
			host, told := templates.LookupArg(templates.ReadArgs(c), "advertise-address")
			port, _ := templates.LookupArg(templates.ReadArgs(c), "secure-port")
			if told && c.Name == "kube-apiserver" && !strings.HasPrefix(m.object, "Pod/") {
				return fmt.Sprintf("kubectl -n %s set env %s KUBERNETES_SERVICE_HOST=%s KUBERNETES_SERVICE_PORT=%s",
					m.namespace, workloadOf(m), host.Value, cmp.Or(port.Value, "6443"))
			}
		}
	}
	return otherwise
}

// uncordoned is the command that lets the manager's pods on a Node that is right for them but for a cordon; otherwise
// where there is none, and where a Node has no taint against them at all.
func (v *view) uncordoned(otherwise string) string {
	m := v.main()
	if m == nil || !v.unplaced(m) {
		return otherwise
	}
	affinity := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *m.pod})
	var names []string
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if ok, err := affinity.Match(n); err != nil || !ok {
			continue
		}
		missing := untolerated(m.pod.Tolerations, n.Spec.Taints)
		if len(missing) == 0 {
			return otherwise
		}
		if len(missing) == 1 && missing[0].Key == corev1.TaintNodeUnschedulable {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return otherwise
	}
	return "kubectl uncordon " + slices.Min(names)
}

// rendered reports whether a finding is about what ccmadm renders, and its record does not have it that way.
func (v *view) rendered(f *finding.Finding) bool {
	if f.Reason == finding.MissingPermission.Kind().Reason {
		return true
	}
	if !slices.Contains(ofRendering(), f.ID) {
		return false
	}
	if slices.Contains(ofArguments(), f.ID) && v.OwnArguments {
		return false
	}
	m := v.main()
	if m == nil {
		return true
	}
	if f.ID == finding.NoPod { // its workload is there
		return false
	}
	if f.ID == finding.ImagePull && m.pod.Containers[m.Container].Image == v.Image || f.ID == "B17" && !m.rendersUntagged() {
		return false
	}
	about := f.Object == m.object || strings.HasPrefix(f.Object, "Node/") || strings.HasPrefix(f.Object, "Lease/")
	return about && m.ours()
}

// rendersUntagged says that the provider has no cluster IDs, so that its profile tells the program to do without.
func (m *manager) rendersUntagged() bool {
	return m.Profile != nil && slices.ContainsFunc(m.Profile.Args, func(arg string) bool {
		return strings.HasPrefix(arg, "--allow-untagged-cloud")
	})
}

// ours reports whether ccmadm has made the manager's workload.
func (m *manager) ours() bool { return m.labels[v1alpha1.ManagedByLabel] == v1alpha1.FieldManager }

// ofRendering are findings that go where the workload, its files and its permissions are rendered again.
func ofRendering() []finding.ID {
	return append(ofArguments(), "B1", "B2", "B3", "F2", "D1", "D15", "C3",
		finding.ImagePull, finding.CrashLoop, finding.NoPod, finding.PodWaiting, finding.FileMissing)
}

// ofArguments are about arguments, which the record can ask for.
func ofArguments() []finding.ID {
	return []finding.ID{"B11", "B13", "B14", "B15", "B16", "B17", "D2", "F1"}
}

// controlPlane is where the manager runs as a static pod, or the first control plane by name.
func (v *view) controlPlane() string {
	if m := v.main(); m != nil && strings.HasPrefix(m.object, "Pod/") && len(m.pods) > 0 && m.pods[0].Spec.NodeName != "" {
		return m.pods[0].Spec.NodeName
	}
	var names []string
	for i := range v.Nodes {
		if nodes.IsControlPlane(&v.Nodes[i]) {
			names = append(names, v.Nodes[i].Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}
