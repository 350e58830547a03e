package doctor

import (
	"bytes"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	k8sversion "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/manifests/lint"
)

// lintManagers has the rules of lint look at the workloads of a cluster in which something is behind. What a rule says
// is a possibility and no proof, so it is a warning. What a workload may do is asked of the API server, not of rules.
func lintManagers(s *diagnosis.Snapshot) []finding.Finding {
	if !s.Behind() {
		return nil
	}
	var docs [][]byte
	add := func(object any) {
		if data, err := yaml.Marshal(object); err == nil {
			docs = append(docs, data)
		}
	}
	for _, d := range s.Deployments {
		d.APIVersion, d.Kind, d.Status = "apps/v1", "Deployment", appsv1.DeploymentStatus{}
		add(d)
	}
	for _, d := range s.DaemonSets {
		d.APIVersion, d.Kind, d.Status = "apps/v1", "DaemonSet", appsv1.DaemonSetStatus{}
		add(d)
	}
	file, err := lint.Parse("", bytes.Join(docs, []byte("---\n")))
	if err != nil || len(docs) == 0 {
		return nil
	}
	set := lint.Set{Files: []*lint.File{file}}
	found, _ := set.Check() // what cannot be read of an object has no rule
	kept := found[:0]
	for _, f := range found {
		if f.Severity == finding.SeverityError && slices.Contains(ofWorkloads(), f.ID) {
			f.Severity, f.Line, f.Column, f.Fix = finding.SeverityWarning, 0, 0, nil
			f.Message += "; it would block a new cluster"
			kept = append(kept, f)
		}
	}
	return kept
}

// lintKubeadm has the rules of lint look at the configuration that kubeadm keeps in the cluster: at the next upgrade
// kubeadm writes the control plane's arguments by it.
func lintKubeadm(s *diagnosis.Snapshot) []finding.Finding {
	file, err := kubeadm.Parse("kubeadm-config", []byte(s.Kubeadm))
	v, unknown := k8sversion.ParseGeneric(s.Version)
	if s.Kubeadm == "" || err != nil || unknown != nil {
		return nil
	}
	var kept []finding.Finding
	for _, f := range file.Lint(int(v.Minor())) {
		if slices.Contains([]finding.ID{"A6", "A7", "A9", "A18"}, f.ID) {
			f.Object, f.File, f.Line, f.Column, f.Fix = "ConfigMap/kube-system/kubeadm-config", "", 0, 0, nil
			f.Severity, f.Next = finding.SeverityWarning, "kubectl -n kube-system edit configmap kubeadm-config"
			f.Message += "; kubeadm upgrade writes it into the control plane's manifests"
			kept = append(kept, f)
		}
	}
	return kept
}

// ofWorkloads are the rules that look at a workload alone.
func ofWorkloads() []finding.ID {
	return []finding.ID{"B1", "B2", "B3", "B4", "B11", "B12", "B13", "B14", "B15", "B16", "C3", "D2"}
}
