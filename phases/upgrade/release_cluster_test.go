package upgrade

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/adoption"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// A run on a control plane notes which ccmadm it was, once; leaving takes the notes of all control planes back,
// and a dry run writes none.
func TestCluster_NoteRelease(t *testing.T) {
	u := newUpgradable(t)
	u.node(t, "cp2", true)
	if err := workflow.NoteReleaseOn(t.Context(), u.client, "cp2", "test"); err != nil {
		t.Fatal(err)
	}
	revision := ""
	for _, tt := range []struct {
		name    string
		options workflow.Inputs
		want    string
		writes  bool
	}{
		{name: "a dry run", options: workflow.Inputs{Existing: true, DryRun: true}},
		{name: "a single phase", options: workflow.Inputs{Existing: true, Request: workflow.Request{Single: true}}},
		{name: "a run", options: workflow.Inputs{Existing: true}, want: "test", writes: true},
		{name: "once more", options: workflow.Inputs{Existing: true}, want: "test"},
		{name: "from afar", options: workflow.Inputs{Existing: true, Operation: &Upgrade{Driven: true}}, want: "test"},
		{name: "leave", options: workflow.Inputs{Existing: true, Operation: &adoption.Adoption{Leave: true}}, writes: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, out := phasestest.Run{Inputs: tt.options}.Must(t, u.m)
			if err := r.Operation.End(t.Context(), r); err != nil {
				t.Error(err)
			}
			node, err := u.client.CoreV1().Nodes().Get(t.Context(), "cp1", metav1.GetOptions{})
			if err != nil || node.Annotations[v1alpha1.ReleaseAnnotation] != tt.want {
				t.Errorf("%v, %v\n%s", err, node.Annotations, out)
			}
			if wrote := revision != "" && node.ResourceVersion != revision; wrote != (tt.writes && revision != "") {
				t.Errorf("it wrote: %v", wrote)
			}
			revision = node.ResourceVersion
			other, err := u.client.CoreV1().Nodes().Get(t.Context(), "cp2", metav1.GetOptions{})
			if want := tt.name != "leave"; err != nil || (other.Annotations[v1alpha1.ReleaseAnnotation] != "") != want {
				t.Errorf("of the other control plane: %v, %v", err, other.Annotations)
			}
		})
	}
}

// idle is a way on which nothing is done.
type idle struct{ fleet.Inspector }

func (idle) Run(context.Context, *fleet.Node, fleet.Task) error { return nil }

// A note of a ccmadm that is no longer on its machine is taken back by whoever upgrades it from elsewhere.
func TestCluster_NoteRelease_OfNoCcmadm(t *testing.T) {
	u := newUpgradable(t)
	u.node(t, "cp2", true)
	if err := workflow.NoteReleaseOn(t.Context(), u.client, "cp2", "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	r, out, _ := u.begun(t, Upgrade{Version: "v1.36.3", Remote: fleet.Remote{Via: fleet.ViaPods}})
	upgradeOf(r).target = version.MustParseSemantic("v1.36.3")
	cp2 := &other{Node: &fleet.Node{Name: "cp2", ControlPlane: true}, report: &kubelet.NodeReport{}}
	if err := (&upgrader{r: r, op: upgradeOf(r), client: u.client, way: idle{}}).upgrade(t.Context(), cp2); err != nil {
		t.Fatal(err)
	}
	node, err := u.client.CoreV1().Nodes().Get(t.Context(), "cp2", metav1.GetOptions{})
	if err != nil || node.Annotations[v1alpha1.ReleaseAnnotation] != "" {
		t.Errorf("%v, %v\n%s", err, node.Annotations, out)
	}
}

// An upgrade of a node has its name in the journal from preflight, not from the command line.
func TestCluster_UpgradeCutShort_Node(t *testing.T) {
	u := newUpgradable(t)
	r, out, _ := u.begun(t, Upgrade{Version: "v1.36.3"})
	r.Command = "upgrade node v1.36.3"
	if err := workflow.OpenRun(t.Context(), r, u.client, ""); err != nil {
		t.Fatal(err)
	}
	if cut, err := upgradeCutShort(t.Context(), r); err != nil || !cut {
		t.Errorf("cut short: %t, %v\n%s", cut, err, out)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A dry run is refused where the run itself would be.
func TestCluster_Upgrade_DryRunRefused(t *testing.T) {
	u := newUpgradable(t)
	sets := u.client.AppsV1().DaemonSets(v1alpha1.Namespace)
	set, err := sets.Get(t.Context(), "aws-cloud-controller-manager", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	set.Spec.Template.Spec.Containers[0].Args = append(set.Spec.Template.Spec.Containers[0].Args, "--v=9")
	if _, err := sets.Update(t.Context(), set, metav1.UpdateOptions{FieldManager: "kubectl-edit"}); err != nil {
		t.Fatal(err)
	}
	for force, want := range map[bool]string{false: `conflict with "kubectl-edit"`, true: ""} {
		r, out := phasestest.Run{Inputs: workflow.Inputs{Existing: true, DryRun: true, Force: force, Operation: &Upgrade{}}}.Must(t, u.m)
		phasestest.WantError(t, r.Do(t.Context(), []workflow.Phase{manager.Addon()}), want, finding.ExitRefused)
		if t.Failed() {
			t.Log(out)
		}
	}
}
