package phases

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/rollback"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestCluster_Apply_IsInTheJournal_AndRolledBack(t *testing.T) {
	m := existingtest.Living(t)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	recordBefore, err := workflow.ReadRecord(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []workflow.Inputs{{}, {DryRun: true}} {
		if _, changed, err := existingtest.ApplyRun(t, m, "", o); err != nil || changed {
			t.Fatalf("changed %v, %v", changed, err)
		}
		if runs, _ := phasestest.JournalOf(t); len(runs) != 0 {
			t.Fatalf("a run that changes nothing is in the journal: %+v", runs)
		}
	}
	file := phasestest.CloudDocument + "mode: Deployment\ncontrollerManager: {extraArgs: [--v=4]}\n" +
		"credentials: [{key: token, file: " + phasestest.TokenFile(t) + "}]\n"
	o := workflow.Inputs{Command: "apply"}
	if out, _, err := existingtest.ApplyRun(t, m, file, o); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runs, text := phasestest.JournalOf(t)
	if len(runs) != 1 || runs[0].State != journal.Done || runs[0].Command != "apply" || runs[0].Machine != "cp1" ||
		strings.Contains(text, "a-token") {
		t.Fatalf("the journal says\n%s", text)
	}
	var names []string
	for _, step := range runs[0].Steps {
		names = append(names, step.Name)
		if step.State != journal.Done || step.Undo != "ccmadm rollback 1" || step.Change == "" {
			t.Errorf("step %+v", step)
		}
	}
	if got := strings.Join(names, " "); got != "addon record" || !strings.Contains(text, "would delete DaemonSet/") {
		t.Errorf("steps %s\n%s", got, text)
	}
	if _, changed, err := existingtest.ApplyRun(t, m, file, o); err != nil || changed {
		t.Errorf("once more: changed %v, %v", changed, err)
	}
	if again, _ := phasestest.JournalOf(t); len(again) != 1 {
		t.Errorf("%d runs after one that changes nothing", len(again))
	}
	back, profile, err := rollback.FormerSettings(&runs[0])
	if err != nil || profile != "" {
		t.Fatal(profile, err)
	}
	if out, _, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{Command: "rollback 1", Request: workflow.Request{Flags: *back}}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rec, err := workflow.ReadRecord(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	a, b := rec.Configuration, recordBefore.Configuration
	if a.Mode != b.Mode || len(a.ControllerManager.ExtraArgs) != 0 ||
		a.ControllerManager.Image != b.ControllerManager.Image || a.Lifecycle != b.Lifecycle {
		t.Errorf("after a rollback the record says %+v, want %+v", a, b)
	}
	if _, err := record.GetWorkload(t.Context(), client, config.ModeDaemonSet, "hetzner-cloud-controller-manager"); err != nil {
		t.Error(err)
	}
}

// While another run is under way nothing is changed, and a record that it changed is not gone by.
func TestCluster_Apply_TwoAtATime(t *testing.T) {
	m := existingtest.Living(t)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	other, err := journal.Open(t.Context(), client, journal.Run{Command: "adopt", Machine: "cp2"})
	if err != nil {
		t.Fatal(err)
	}
	file := phasestest.CloudDocument + "controllerManager: {extraArgs: [--v=4]}\n"
	_, changed, err := existingtest.ApplyRun(t, m, file, workflow.Inputs{Command: "apply"})
	phasestest.WantError(t, err, "another run is under way: ccmadm adopt on cp2", finding.ExitRefused)
	if changed {
		t.Error("something was changed")
	}
	if out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{Command: "apply"}); err != nil || changed {
		t.Errorf("what changes nothing waits for nobody: changed %v, %v\n%s", changed, err, out)
	}
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	late, _ := phasestest.Run{Config: file, Inputs: workflow.Inputs{Existing: true, Command: "apply"}}.Must(t, m)
	if err := manager.ApplyPreflight().Do(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	if _, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"lifecycle: \"Off\"\n", workflow.Inputs{Command: "apply"}); err != nil {
		t.Fatal(err)
	}
	err = late.Do(t.Context(), manager.Apply()[1:])
	phasestest.WantError(t, err, "the cluster's record changed after this run read it", finding.ExitRefused)
	if late.Changed() {
		t.Error("something was changed")
	}
}

// A rollback applies to what it has shown: a run that ends while the user reads it is not undone unseen.
func TestCluster_Apply_ToWhatWasShown(t *testing.T) {
	m := existingtest.Living(t)
	begun := func(o workflow.Inputs) *workflow.Run {
		o.Existing, o.Command, o.Line = true, "rollback", "ccmadm rollback 1"
		r, _ := phasestest.Run{Config: phasestest.CloudDocument + "controllerManager: {extraArgs: [--v=4]}\n", Inputs: o}.Must(t, m)
		return r
	}
	shown := begun(workflow.Inputs{DryRun: true})
	if err := shown.Do(t.Context(), manager.Apply()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"lifecycle: \"Off\"\n", workflow.Inputs{Command: "apply"}); err != nil {
		t.Fatal(err)
	}
	back := begun(workflow.Inputs{})
	back.GoesBy(t.Context(), shown)
	err := back.Do(t.Context(), manager.Apply())
	phasestest.WantError(t, err, "the cluster's record changed after this run read it", finding.ExitRefused)
	if known := new(finding.Error); !errors.As(err, &known) || !strings.Contains(known.Hint, "run ccmadm rollback 1 again") {
		t.Errorf("got the hint %q, want the command line of the run", known.Hint)
	}
	if back.Changed() {
		t.Error("something was changed")
	}
}

// A proxy's password is in the manager's pods, which not everybody may read who reads ConfigMaps.
func TestCluster_Apply_NoPasswordInTheJournal(t *testing.T) {
	m := existingtest.Living(t)
	sets := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).AppsV1().DaemonSets("kube-system")
	if err := sets.Delete(t.Context(), "hetzner-cloud-controller-manager", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r, out := phasestest.Run{Inputs: workflow.Inputs{Existing: true, Command: "apply"}}.Must(t, m)
	r.Getenv = func(name string) string {
		return map[string]string{"HTTPS_PROXY": "http://us:hunter2@proxy.example.org:3128"}[name]
	}
	if err := r.Do(t.Context(), []workflow.Phase{manager.Addon()}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made, err := sets.Get(t.Context(), "hetzner-cloud-controller-manager", metav1.GetOptions{})
	if err != nil || !strings.Contains(made.String(), "hunter2") {
		t.Fatalf("the manager has another proxy: %v", err)
	}
	if _, text := phasestest.JournalOf(t); strings.Contains(text, "hunter2") || !strings.Contains(text, "@proxy.example.org:3128") {
		t.Errorf("the journal says\n%s", text)
	}
}

// One phase by itself is a run of one step.
func TestCluster_Apply_APhaseByItself(t *testing.T) {
	m := existingtest.Living(t)
	sets := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).AppsV1().DaemonSets("kube-system")
	if err := sets.Delete(t.Context(), "hetzner-cloud-controller-manager", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if out, err := (phasestest.Run{Inputs: workflow.Inputs{Existing: true, Command: "apply"}}).Do(t, m, manager.Addon()); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if runs, text := phasestest.JournalOf(t); len(runs) != 1 || len(runs[0].Steps) != 1 || runs[0].State != journal.Done {
			t.Errorf("the journal says\n%s", text)
		}
	}
}

// A run that stops between two steps has failed all the same: it is what `ccmadm rollback` leads back from, not the one
// before it.
func TestCluster_Apply_FailsBetweenSteps(t *testing.T) {
	m := existingtest.Living(t)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	o := workflow.Inputs{Existing: true, Command: "apply"}
	if out, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"controllerManager: {extraArgs: [--v=4]}\n", o); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, out := phasestest.Run{Config: phasestest.CloudDocument + "controllerManager: {extraArgs: [--v=5]}\n", Inputs: o}.Must(t, m)
	fails := workflow.Phase{Name: "cleanup", Run: func(context.Context, *workflow.Run) error { return errors.New("the API server answers 503") }}
	if err := r.Do(t.Context(), []workflow.Phase{manager.ApplyPreflight(), manager.Addon(), fails}); err == nil {
		t.Fatalf("it has not failed\n%s", out)
	}
	runs, text := phasestest.JournalOf(t)
	if len(runs) != 2 || len(runs[1].Steps) != 1 || runs[1].Steps[0].State != journal.Done ||
		runs[1].State != journal.Failed {
		t.Fatalf("the journal says\n%s", text)
	}
	if newest, err := rollback.NewestChange(t.Context(), client, runs); err != nil || newest.ID != 2 {
		t.Errorf("rollback leads back from %+v, %v", newest, err)
	}
}
