package adoption

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// watched is what was under way at the same time, and in which order it began.
type watched struct {
	mu        sync.Mutex
	now, most int
	began     []string
	alone     map[string]bool
}

func (w *watched) change(fails string) func(context.Context, *fleet.Node) error {
	return func(_ context.Context, n *fleet.Node) error {
		w.mu.Lock()
		w.now++
		w.most = max(w.most, w.now)
		w.began = append(w.began, n.Name)
		w.alone[n.Name] = w.now == 1
		w.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.alone[n.Name] = w.alone[n.Name] && w.now == 1
		w.now--
		if n.Name == fails {
			return &finding.Error{Code: finding.ExitNotInTime, Err: errors.New("it is late"), Hint: "look there"}
		}
		return nil
	}
}

// Workers are changed as many at a time as was asked for, control planes alone; behind a failure nothing begins, and
// what is under way comes to its end.
func TestAdopt_Parallel(t *testing.T) {
	for _, tt := range []struct {
		parallel, most, began int
		fails                 string
	}{
		{parallel: 1, most: 1, began: 9},
		{parallel: 3, most: 3, began: 9},
		{parallel: 3, most: 3, began: 6, fails: "w3"}, // w4 to w6 begin in its time, or before it is seen
		{parallel: 3, most: 3, began: 8, fails: "cp1"},
	} {
		t.Run(fmt.Sprintf("%d, %s fails", tt.parallel, tt.fails), func(t *testing.T) {
			m, _ := machinetest.New(t)
			leave := &Adoption{Leave: true, Remote: fleet.Remote{Parallel: tt.parallel}}
			r, out := phasestest.Run{Inputs: workflow.Inputs{Output: "json", Operation: leave}}.Must(t, m)
			one := &workflow.SharedWriter{Out: r.Out} // as newAdopter has it; here, both are one buffer
			r.Out, r.Err = one, one
			var plan []*fleet.Node
			for i := range 7 {
				plan = append(plan, &fleet.Node{Name: fmt.Sprintf("w%d", i+1)})
			}
			plan = append(plan, &fleet.Node{Name: "cp1", ControlPlane: true},
				&fleet.Node{Name: "cp2", ControlPlane: true, Here: true})
			w := &watched{alone: map[string]bool{}}
			a := &adopter{r: r, op: leave, client: fake.NewClientset(nodesOfPlan(plan)...)}
			err := a.each(t.Context(), plan, w.change(tt.fails))
			if w.most > tt.most || len(w.began) > tt.began || tt.fails == "" && len(w.began) != 9 {
				t.Errorf("%d at a time, %v", w.most, w.began)
			}
			if began := strings.Join(w.began, " "); strings.Contains(began, "cp1") && !w.alone["cp1"] {
				t.Errorf("a control plane was not alone: %s", began)
			}
			if tt.fails == "" && err != nil {
				t.Error(err)
			}
			if tt.fails != "" {
				phasestest.WantError(t, err, "node "+tt.fails+": it is late", finding.ExitNotInTime)
			}
			wantEvents(t, out.String(), len(w.began), tt.fails)
		})
	}
}

// nodesOfPlan are what the API server has.
func nodesOfPlan(plan []*fleet.Node) (list []runtime.Object) {
	for _, n := range plan {
		list = append(list, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}})
	}
	return list
}

// wantEvents reads the lines for programs: each node begins and ends.
func wantEvents(t *testing.T, out string, nodes int, fails string) {
	t.Helper()
	count := map[string]int{}
	for line := range strings.SplitSeq(out, "\n") {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var e workflow.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		count[e.Step]++
		if e.Step == "Failed" && (e.Node != fails || e.Error != "it is late") {
			t.Errorf("%s failed: %s", e.Node, e.Error)
		}
	}
	failed := 0
	if fails != "" {
		failed = 1
	}
	if count["Begun"] != nodes || count["Done"] != nodes-failed || count["Failed"] != failed {
		t.Errorf("%v of %d nodes\n%s", count, nodes, out)
	}
}
