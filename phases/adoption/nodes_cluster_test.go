package adoption

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// A provider ID of former days is no proof that the cloud knows the machine: the Node is initialized anew, and one that
// is skipped keeps the lifecycle off.
func TestCluster_Adopt_ProviderIDOfFormerDays(t *testing.T) {
	m, client := plain(t)
	knowAll(t, client, nil)
	r, _ := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true, Remote: fleet.Remote{Skip: []string{"w1"}}})
	plan, err := adoptionOf(r).plannedNodes(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range plan {
		if n.Initialized {
			t.Errorf("%s is taken for known", n.Name)
		}
	}
	for _, external := range []bool{false, true} { // as it is, and from a run that did not come to its end
		if external {
			node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
			if err == nil {
				node.Annotations = map[string]string{v1alpha1.ProvidedNodeIPAnnotation: kubelet.NodeIP(node)}
				_, err = client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		unknown, err := adoptionOf(r).unresolved(t.Context(), r)
		if err != nil || !slices.Contains(unknown, "w1") {
			t.Errorf("external %v: not known are %v, %v", external, unknown, err)
		}
	}
}

// A taint that the run has set goes where nobody initializes the Node; one that was there before stays.
func TestCluster_Adopt_NobodyInitializes(t *testing.T) {
	m, client := plain(t)
	for _, before := range []bool{false, true} {
		if err := kubelet.Taint(t.Context(), client, "w1", before); err != nil {
			t.Fatal(err)
		}
		short := workflow.Inputs{
			Output: "text",
			Request: workflow.Request{Flags: config.CloudConfiguration{Wait: config.WaitPolicy{
				Timeout: metav1.Duration{Duration: time.Second},
			}}},
		}
		r, out := adoption(t, m, short, Adoption{Yes: true})
		a, err := adoptionOf(r).newAdopter(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := adoptionOf(r).plannedNodes(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		phasestest.WantError(t, workflow.AsError(a.initialize(t.Context(), plan[0])), "w1", finding.ExitNotInTime)
		node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if nodes.IsTainted(node) != before {
			t.Errorf("tainted before: %v, and after: %v\n%s", before, nodes.IsTainted(node), out)
		}
	}
}

// A taint that a run has set which was cut short is that run's, and goes; one that nobody of ours has set is told.
func TestCluster_Adopt_TaintOfARunThatWasCutShort(t *testing.T) {
	m, client := plain(t)
	t.Cleanup(func() {
		err := client.CoreV1().ConfigMaps("kube-system").Delete(context.WithoutCancel(t.Context()), v1alpha1.JournalName,
			metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	for _, ours := range []bool{false, true} {
		if err := kubelet.Taint(t.Context(), client, "w1", true); err != nil {
			t.Fatal(err)
		}
		if ours {
			j, err := journal.Open(t.Context(), client, journal.Run{Command: "adopt", Machine: "cp1"})
			if err != nil {
				t.Fatal(err)
			}
			step := journal.Step{Name: "initialize", Node: "w1"}
			_ = j.Do(t.Context(), step, func(context.Context) error { return errors.New("killed") })
			if err := j.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		short := workflow.Inputs{
			Output: "text",
			Request: workflow.Request{Flags: config.CloudConfiguration{Wait: config.WaitPolicy{
				Timeout: metav1.Duration{Duration: time.Second},
			}}},
		}
		r, out := adoption(t, m, short, Adoption{Yes: true})
		a, err := adoptionOf(r).newAdopter(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := adoptionOf(r).plannedNodes(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NoteCutShort(t.Context(), client, plan); err != nil {
			t.Fatal(err)
		}
		failed := a.stopped([]fleet.FailedNode{{Node: plan[0], Err: a.initialize(t.Context(), plan[0])}})
		node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var known *finding.Error
		if !errors.As(failed, &known) || nodes.IsTainted(node) == ours ||
			strings.Contains(known.Hint, "kubectl taint node w1 node.cloudprovider.kubernetes.io/uninitialized-") == ours {
			t.Errorf("the taint is ours: %v; tainted: %v, %v\n%s", ours, nodes.IsTainted(node), failed, out)
		}
	}
}

func TestCluster_Taint(t *testing.T) {
	_, client := plain(t)
	for _, set := range []bool{true, true, false, false} {
		if err := kubelet.Taint(t.Context(), client, "w1", set); err != nil {
			t.Fatal(err)
		}
		node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if nodes.IsTainted(node) != set {
			t.Errorf("taints are %v", node.Spec.Taints)
		}
		for _, x := range node.Spec.Taints {
			if x.Key == v1alpha1.UninitializedTaint && x.Effect != corev1.TaintEffectNoSchedule {
				t.Errorf("effect %s would touch pods that run", x.Effect)
			}
		}
	}
}
