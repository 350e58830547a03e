package phases

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// Behind a rollback to before a step the cluster is where the run would be, had it stopped there: the manager runs, may
// delete no Node, and the nodes from there on are to be changed.
func TestCluster_Rollback_ToBeforeAStep(t *testing.T) {
	m, client := plain(t)
	adopt := Options{Command: "adopt", Flags: v1alpha1.CloudConfiguration{Provider: "onprem"}}
	d, out := adoption(t, m, adopt, Adoption{Yes: true})
	runAll(t.Context(), t, d, out, Adopt()[:6])
	for _, node := range []string{"w1", "w2"} {
		step := journal.Step{Name: kubeletStep, Node: node, Before: "none"}
		err := nodeStep(t.Context(), d, step, func(context.Context) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	knowAll(t, client, map[string]string{v1alpha1.ProvidedNodeIPAnnotation: "x"})
	runAll(t.Context(), t, d, out, []Phase{resolved(rbac()), resolved(record())})
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := func(lifecycle v1alpha1.Lifecycle) {
		t.Helper()
		rec, err := readRecord(t.Context(), client)
		if err != nil || rec.Configuration.Lifecycle != lifecycle {
			t.Errorf("the record says %+v, %v, want %s", rec, err, lifecycle)
		}
	}
	want(v1alpha1.LifecycleGuarded)
	runs, _ := journalOf(t)
	run := newest(runs)
	first := slices.IndexFunc(run.Steps, func(s journal.Step) bool { return s.Name == kubeletStep })
	o, list, err := StepBack(runs, run, first+1, Adoption{Yes: true})
	if err != nil || !slices.Equal(o.Adoption.Only, []string{"w1", "w2"}) {
		t.Fatalf("%+v, %v", o, err)
	}
	d, out = adoption(t, m, *o, *o.Adoption)
	for _, p := range list {
		if p.Name == "rollout" || p.Name == "nodes" { // those are TestAdopt_Rollback's
			continue
		}
		if err := p.run(t.Context(), d); err != nil {
			t.Fatalf("%s: %v\n%s", p.Name, err, out)
		}
	}
	plan, err := plannedNodes(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range plan {
		if n.skipped == (n.name == "w1") {
			t.Errorf("%s is left as it is: %v", n.name, n.skipped)
		}
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(v1alpha1.LifecycleOff)
	_, err = client.AppsV1().DaemonSets("kube-system").Get(t.Context(), "onprem-cloud-controller-manager",
		metav1.GetOptions{})
	if err != nil {
		t.Errorf("the manager: %v", err)
	}
	d, out = adoption(t, m, adopt, Adoption{Yes: true})
	runAll(t.Context(), t, d, out, []Phase{resolved(rbac()), resolved(record())}) // adopt again
	want(v1alpha1.LifecycleGuarded)
}

func TestChangedSince(t *testing.T) {
	step := func(name, node, before string) journal.Step {
		return journal.Step{Name: name, Node: node, Before: before}
	}
	adopt := journal.Run{ID: 1, Command: "adopt", Steps: []journal.Step{
		step("begin", "cp1", ""), step("addon", "cp1", ""),
		step(kubeletStep, "w1", "none"), step(initializeStep, "w1", ""),
		step(kubeletStep, "w2", "not told"), step(initializeStep, "w2", ""),
		step(kubeletStep, "cp1", flagExternal+" from a file"), step("lifecycle", "cp1", ""),
	}}
	taken := journal.Run{ID: 2, Command: "adopt", Steps: []journal.Step{step(kubeletStep, "w3", "none")}}
	leave := journal.Run{ID: 3, Command: "leave", Steps: []journal.Step{
		step("rbac", "cp1", ""), step(kubeletStep, "w1", flagExternal+" --node-ip=192.0.2.1"),
		step(kubeletStep, "w2", noFlags), step("machine", "cp1", ""),
	}}
	other := adopt.Steps
	other = append([]journal.Step{step(formerProvider().Name, "cp1", "")}, other...)
	const together = "these steps are undone together"
	for _, tt := range []struct {
		name    string
		runs    []journal.Run
		step    int
		want    []string
		refused string
	}{
		{"the first node", []journal.Run{adopt}, 3, []string{"w1", "w2"}, ""},
		{"within a node", []journal.Run{adopt}, 4, []string{"w1", "w2"}, ""},
		{"another node", []journal.Run{adopt}, 5, []string{"w2"}, ""},
		{"one that was external", []journal.Run{adopt}, 7, []string{}, ""},
		{"the lifecycle alone", []journal.Run{adopt}, 8, []string{}, ""},
		{"taken up", []journal.Run{adopt, taken}, 5, []string{"w2", "w3"}, ""},
		{"before any node", []journal.Run{adopt}, 2, nil, together},
		{"of another provider", []journal.Run{{ID: 1, Command: "adopt", Steps: other}}, 4, nil, together},
		{"of apply", []journal.Run{{ID: 1, Command: "apply", Steps: adopt.Steps}}, 3, nil, together},
		{"left since", []journal.Run{adopt, leave}, 5, nil, "run 3, ccmadm leave, has come after it"},
		{"of leave", []journal.Run{leave}, 2, []string{"w1"}, ""},
		{"of leave, behind what was external", []journal.Run{leave}, 3, nil, together},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := changedSince(tt.runs, &tt.runs[0], tt.step)
			if tt.refused != "" {
				wantError(t, err, tt.refused, finding.ExitRefused)
				return
			}
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %v, %v, want %v", got, err, tt.want)
			}
		})
	}
	_, _, err := StepBack([]journal.Run{adopt}, &adopt, 9, Adoption{})
	wantError(t, err, "run 1 has 8 steps", finding.ExitUsage)
}
