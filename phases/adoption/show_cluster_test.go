package adoption

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/phases/fleet"
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
