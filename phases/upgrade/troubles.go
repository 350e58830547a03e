package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/requests"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests/lint"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
)

// liveTroubles are those of `ccmadm status`, and what keeps pods of kubeadm and of its addons from starting. A worker's does not stop a
// control plane.
func liveTroubles(
	ctx context.Context, m *machine.Machine, client kubernetes.Interface, proxy *appsv1.DaemonSet, f *planner.Facts,
) error {
	report, err := nodes.Observe(ctx, client, f.Profile.LeaseName(), nil)
	if err != nil {
		return fmt.Errorf("look at the nodes: %w", err)
	}
	f.Troubles = append(f.Troubles, report.Findings...)
	controlPlanes := map[string]bool{}
	for _, n := range f.Nodes {
		controlPlanes[n.Name] = n.ControlPlane
	}
	for _, s := range report.Failing(nodes.Addressed) {
		if s.Cause == nil {
			continue
		}
		cause := *s.Cause
		cause.Object = "Node/" + s.Node
		if !controlPlanes[s.Node] {
			cause.Severity = finding.SeverityWarning
		}
		f.Troubles = append(f.Troubles, cause)
	}
	references, err := staticPodReferences(m, f.Here)
	f.Troubles = append(append(f.Troubles, references...), liveRefusals(ctx, client, f.Here, proxy)...)
	return err
}

// staticPodReferences finds static pods of this machine that kubelets of the version refuse.
func staticPodReferences(m *machine.Machine, here string) ([]finding.Finding, error) {
	entries, err := os.ReadDir(m.Path(machine.ManifestDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the static pods: %w", err)
	}
	var list []finding.Finding
	for _, e := range entries {
		path := filepath.Join(machine.ManifestDir, e.Name())
		if regular, err := os.Stat(m.Path(path)); err != nil || !regular.Mode().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue // which kubelets pass over
		}
		pod, err := record.ReadStaticPod(m, path)
		if err != nil || pod == nil || pod.Kind != "Pod" {
			continue // a kubelet makes no pod of it
		}
		for _, r := range lint.References(&pod.Spec) {
			list = append(list, finding.ID("A15").New(here+":"+path, finding.Clean(r.What)))
		}
	}
	return list, nil
}

// liveRefusals finds what admission refuses of the writes without which no upgrade ends well, as dry runs.
func liveRefusals(ctx context.Context, client kubernetes.Interface, here string, proxy *appsv1.DaemonSet) []finding.Finding {
	cluster := requests.Cluster{Node: here}
	if proxy != nil {
		cluster.Proxy = components.PodOf(proxy)
	}
	refused, unknown := requests.Refused(ctx, client, cluster)
	list := requests.Judge(&requests.Seen{Refused: refused})
	if unknown != nil { // as by an administrator who may not act for others: kubeadm's own checks are left
		not := finding.WriteRefused.New("", "whether admission accepts what an upgrade writes is not known: "+finding.Clean(redact.Text(unknown.Error())))
		not.Severity = finding.SeverityWarning
		list = append(list, not)
	}
	return list
}
