package adoption

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// goes is one Node that is removed: before its step is begun, or while that is under way.
type goes struct {
	leave  bool
	during string
}

// playSteps does over SSH what a step makes a kubelet tell, and removes a Node while its step is under way.
func playSteps(t *testing.T, client kubernetes.Interface, runner *machinetest.Commands, during string) {
	t.Helper()
	nodes := client.CoreV1().Nodes()
	runner.During = func(line string) {
		for name, ip := range map[string]string{"w1": "198.18.0.101", "w2": "198.18.0.102", "w3": "198.18.0.103"} {
			if !strings.Contains(line, "ssh ") || !strings.Contains(line, ip+" -- ccmadm node ") {
				continue
			}
			annotations := map[string]string{}
			if strings.Contains(line, "node external") {
				annotations[v1alpha1.ProvidedNodeIPAnnotation] = ip
			}
			node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
			if err == nil {
				node.Annotations = annotations
				_, err = nodes.Update(t.Context(), node, metav1.UpdateOptions{})
			}
			if err == nil && name == during {
				err = nodes.Delete(t.Context(), name, metav1.DeleteOptions{})
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// A worker whose Node an autoscaler removes holds up no other one; a control plane does.
func TestCluster_Adopt_NodeGoneMeanwhile(t *testing.T) {
	m, client := plain(t)
	runner := m.Runner.(*machinetest.Commands)
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	here = strings.ToLower(here)
	nodes := client.CoreV1().Nodes()
	remove := func(name string) {
		if err := nodes.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	phasestest.AddNode(t, client, "w3", "198.18.0.103", nil)
	for name, tt := range map[string]goes{
		"adopt": {}, "leave": {leave: true},
		"adopt, while it is changed": {during: "w2"}, "leave, while it is changed": {leave: true, during: "w2"},
	} {
		t.Run(name, func(t *testing.T) {
			phasestest.AddNode(t, client, "w2", "198.18.0.102", nil)
			before := map[string]string{}
			if tt.leave {
				before[v1alpha1.ProvidedNodeIPAnnotation] = "x"
			}
			knowAll(t, client, before)
			r, out := adoption(t, m, workflow.Inputs{Request: workflow.Request{Flags: config.CloudConfiguration{Lifecycle: config.LifecycleOff}}},
				Adoption{Leave: tt.leave, NodeTimeout: time.Second, Remote: fleet.Remote{Via: fleet.ViaSSH, Skip: []string{here}}})
			phase := adoptNodes()
			if tt.leave {
				begun, said := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
				if err := held(begin()).Do(t.Context(), begun); err != nil {
					t.Fatalf("%v\n%s", err, said)
				}
				phase = leaveNodes()
			}
			plan, err := adoptionOf(r).plannedNodes(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if tt.during == "" {
				remove("w2")
			}
			playSteps(t, client, runner, tt.during)
			if err := phase.Do(t.Context(), r); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if !strings.Contains(out.String(), "w2: its Node is gone meanwhile") || !strings.Contains(out.String(), "(2 of 2)") {
				t.Errorf("it said\n%s", out)
			}
			for _, name := range []string{"w1", "w3"} {
				node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil || fleet.IsExternal(node) == tt.leave {
					t.Errorf("%s was not changed: %v\n%s", name, err, out)
				}
			}
			gone := slices.IndexFunc(plan, func(n *fleet.Node) bool { return n.Gone })
			if gone < 0 || plan[gone].Name != "w2" {
				t.Errorf("gone is %d of the plan", gone)
			}
		})
	}
	r, _ := adoption(t, m, workflow.Inputs{}, Adoption{})
	a, err := adoptionOf(r).newAdopter(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	cp2 := []*fleet.Node{{Name: "cp2", ControlPlane: true}}
	err = a.each(t.Context(), cp2, func(ctx context.Context, n *fleet.Node) error { return a.adopt(ctx, n) })
	phasestest.WantError(t, err, `node cp2: ask for Node/cp2: nodes "cp2" not found`, finding.ExitError)
	silent, end := context.WithCancel(t.Context())
	end()
	if a.isGone(silent, &fleet.Node{Name: "w2"}, nil) {
		t.Error("without an answer of the API server it is gone")
	}
}
