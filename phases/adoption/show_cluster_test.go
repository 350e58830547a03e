package adoption

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// A plan is an object for each node where a program reads it, with what stands against the node.
func TestCluster_Adopt_PlanForPrograms(t *testing.T) {
	m, _ := plain(t)
	r, out := adoption(t, m, workflow.Inputs{DryRun: true, Output: "json"}, Adoption{Remote: fleet.Remote{Skip: []string{"w1"}}})
	if err := adoptPreflight().Do(t.Context(), r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := map[string]fleet.PlanLine{}
	for line := range strings.SplitSeq(out.String(), "\n") {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var l fleet.PlanLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		lines[l.Role] = l
	}
	if w := lines["worker"]; w.Node != "w1" || w.Address != "198.18.0.101" || w.ToDo != "skipped" {
		t.Errorf("the worker: %+v", w)
	}
	if cp := lines["control plane"]; cp.Flags != "none" || cp.ToDo != "kubelet, initialize" || len(cp.Problems) > 0 {
		t.Errorf("the control plane: %+v", cp)
	}
}

// A dry run is refused where the run itself would be.
func TestCluster_Adopt_DryRunRefused(t *testing.T) {
	m, client := plain(t)
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	runAll(t.Context(), t, r, out, []workflow.Phase{held(begin()), held(manager.RBAC())})
	roles := client.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), v1alpha1.Prefix+"onprem", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	role.Rules[0].Verbs = append(role.Rules[0].Verbs, "deletecollection")
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{FieldManager: "kubectl-edit"}); err != nil {
		t.Fatal(err)
	}
	for force, want := range map[bool]string{false: `conflict with "kubectl-edit"`, true: ""} {
		for _, leave := range []bool{false, true} {
			r, out := adoption(t, m, workflow.Inputs{DryRun: true, Force: force}, Adoption{Leave: leave, Yes: true})
			phasestest.WantError(t, r.Do(t.Context(), []workflow.Phase{held(manager.RBAC())}), want, finding.ExitRefused)
			if t.Failed() {
				t.Log(out)
			}
		}
	}
}
