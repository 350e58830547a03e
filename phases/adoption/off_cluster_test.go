package adoption

import (
	"testing"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// What a user has switched off stays off: adopt switches on only what it has held.
func TestCluster_Adopt_LifecycleOff(t *testing.T) {
	m, client := bySample(t)
	change := func(to config.Lifecycle) {
		t.Helper()
		o := workflow.Inputs{Existing: true, Request: workflow.Request{Flags: config.CloudConfiguration{Lifecycle: to}}}
		r, out := phasestest.Run{Inputs: o}.Must(t, m)
		if err := r.Do(t.Context(), []workflow.Phase{manager.RBAC(), manager.Addon(), manager.Record()}); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	want := func(when string, lifecycle config.Lifecycle, held bool) {
		t.Helper()
		rec, err := workflow.ReadRecord(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		if is := mayDeleteNodes(t, client); rec.Configuration.Lifecycle != lifecycle || rec.LifecycleHeld != held ||
			is != (lifecycle == config.LifecycleGuarded) {
			t.Errorf("%s: Nodes may be deleted: %v, the record says %s, held %v", when, is, rec.Configuration.Lifecycle,
				rec.LifecycleHeld)
		}
	}
	adopt := func() {
		t.Helper()
		r, out := adoption(t, m, workflow.Inputs{Request: workflow.Request{Flags: config.CloudConfiguration{Provider: "sample"}}}, Adoption{Yes: true})
		plan, err := adoptionOf(r).plannedNodes(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range plan {
			if !n.Initialized {
				t.Errorf("%s would be initialized anew", n.Name)
			}
		}
		runAll(t.Context(), t, r, out, []workflow.Phase{
			held(begin()), held(manager.RBAC()), held(manager.Addon()), resolved(manager.RBAC()), resolved(manager.Addon()), resolved(manager.Record()),
		})
	}
	change(config.LifecycleOff)
	want("switched off", config.LifecycleOff, false)
	adopt()
	want("and adopted", config.LifecycleOff, false)
	change(config.LifecycleGuarded)
	want("switched on", config.LifecycleGuarded, false)
}

// Off for the time of an adoption is noted as that, and stays noted whatever else changes.
func TestCluster_Adopt_LifecycleHeld(t *testing.T) {
	m, client := plain(t)
	held := func(when string, want bool) {
		t.Helper()
		rec, err := workflow.ReadRecord(t.Context(), client)
		if err != nil || rec.LifecycleHeld != want || (rec.Configuration.Lifecycle == config.LifecycleOff) != want {
			t.Errorf("%s: %+v, %v", when, rec, err)
		}
	}
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	runAll(t.Context(), t, r, out, []workflow.Phase{resolved(manager.Record())}) // with nodes that are not known
	held("left out", true)
	other := workflow.Inputs{Existing: true, Request: workflow.Request{Flags: config.CloudConfiguration{NodeIP: "198.18.0.0/16"}}}
	r, out = phasestest.Run{Inputs: other}.Must(t, m)
	if err := r.Do(t.Context(), []workflow.Phase{manager.Record()}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	held("and changed", true)
	knowAll(t, client, map[string]string{v1alpha1.ProvidedNodeIPAnnotation: "x"})
	r, out = adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	runAll(t.Context(), t, r, out, []workflow.Phase{resolved(manager.Record())})
	held("all known", false)
}
