package phases

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// journalOf returns the runs, and the text of all.
func journalOf(t *testing.T) ([]journal.Run, string) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	runs, err := journal.Read(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	cm, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), v1alpha1.JournalName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		text.WriteString(cm.Data[key])
	}
	return runs, text.String()
}

func TestCluster_Apply_IsInTheJournal_AndRolledBack(t *testing.T) {
	m := living(t)
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	recordBefore, err := readRecord(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{}, {DryRun: true}} {
		if _, changed, err := applyRun(t, m, "", o); err != nil || changed {
			t.Fatalf("changed %v, %v", changed, err)
		}
		if runs, _ := journalOf(t); len(runs) != 0 {
			t.Fatalf("a run that changes nothing is in the journal: %+v", runs)
		}
	}
	file := cloudDocument + "mode: Deployment\ncontrollerManager: {extraArgs: [--v=4]}\n" +
		"credentials: [{key: token, file: " + tokenFile(t) + "}]\n"
	o := Options{Command: "apply"}
	if out, _, err := applyRun(t, m, file, o); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runs, text := journalOf(t)
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
	if _, changed, err := applyRun(t, m, file, o); err != nil || changed {
		t.Errorf("once more: changed %v, %v", changed, err)
	}
	if again, _ := journalOf(t); len(again) != 1 {
		t.Errorf("%d runs after one that changes nothing", len(again))
	}
	back, profile, err := FormerSettings(&runs[0])
	if err != nil || profile != "" {
		t.Fatal(profile, err)
	}
	if out, _, err := applyRun(t, m, "", Options{Command: "rollback 1", Flags: *back}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rec, err := readRecord(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	a, b := rec.Configuration, recordBefore.Configuration
	if a.Mode != b.Mode || len(a.ControllerManager.ExtraArgs) != 0 ||
		a.ControllerManager.Image != b.ControllerManager.Image || a.Lifecycle != b.Lifecycle {
		t.Errorf("after a rollback the record says %+v, want %+v", a, b)
	}
	if _, err := getWorkload(t.Context(), client, v1alpha1.ModeDaemonSet, "hetzner-cloud-controller-manager"); err != nil {
		t.Error(err)
	}
}

// While another run is under way nothing is changed, and a record that it changed is not gone by.
func TestCluster_Apply_TwoAtATime(t *testing.T) {
	m := living(t)
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	other, err := journal.Open(t.Context(), client, journal.Run{Command: "adopt", Machine: "cp2"})
	if err != nil {
		t.Fatal(err)
	}
	file := cloudDocument + "controllerManager: {extraArgs: [--v=4]}\n"
	_, changed, err := applyRun(t, m, file, Options{Command: "apply"})
	wantError(t, err, "another run is under way: ccmadm adopt on cp2", finding.ExitRefused)
	if changed {
		t.Error("something was changed")
	}
	if out, changed, err := applyRun(t, m, "", Options{Command: "apply"}); err != nil || changed {
		t.Errorf("what changes nothing waits for nobody: changed %v, %v\n%s", changed, err, out)
	}
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	late, _ := run{config: file, options: Options{Living: true, Command: "apply"}}.must(t, m)
	if err := applyPreflight().run(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	if _, _, err := applyRun(t, m, cloudDocument+"lifecycle: \"Off\"\n", Options{Command: "apply"}); err != nil {
		t.Fatal(err)
	}
	err = Run(t.Context(), late, Apply()[1:])
	wantError(t, err, "the cluster's record has become another one", finding.ExitRefused)
	if late.Changed() {
		t.Error("something was changed")
	}
}

// A proxy's password is in the manager's pods, which not everybody may read who reads ConfigMaps.
func TestCluster_Apply_NoPasswordInTheJournal(t *testing.T) {
	m := living(t)
	sets := kubernetes.NewForConfigOrDie(cluster.Config).AppsV1().DaemonSets("kube-system")
	if err := sets.Delete(t.Context(), "hetzner-cloud-controller-manager", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d, out := run{options: Options{Living: true, Command: "apply"}}.must(t, m)
	d.Env = func(name string) string {
		return map[string]string{"HTTPS_PROXY": "http://us:hunter2@proxy.example.org:3128"}[name]
	}
	if err := Run(t.Context(), d, []Phase{addon()}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made, err := sets.Get(t.Context(), "hetzner-cloud-controller-manager", metav1.GetOptions{})
	if err != nil || !strings.Contains(made.String(), "hunter2") {
		t.Fatalf("the manager has another proxy: %v", err)
	}
	if _, text := journalOf(t); strings.Contains(text, "hunter2") || !strings.Contains(text, "@proxy.example.org:3128") {
		t.Errorf("the journal says\n%s", text)
	}
}

// One phase by itself is a run of one step.
func TestCluster_Apply_APhaseByItself(t *testing.T) {
	m := living(t)
	sets := kubernetes.NewForConfigOrDie(cluster.Config).AppsV1().DaemonSets("kube-system")
	if err := sets.Delete(t.Context(), "hetzner-cloud-controller-manager", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if out, err := (run{options: Options{Living: true, Command: "apply"}}).do(t, m, addon()); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if runs, text := journalOf(t); len(runs) != 1 || len(runs[0].Steps) != 1 || runs[0].State != journal.Done {
			t.Errorf("the journal says\n%s", text)
		}
	}
}

// A run that stops between two steps has failed all the same: it is what `ccmadm rollback` leads back from, not the one
// before it.
func TestCluster_Apply_FailsBetweenSteps(t *testing.T) {
	m := living(t)
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	o := Options{Living: true, Command: "apply"}
	if out, _, err := applyRun(t, m, cloudDocument+"controllerManager: {extraArgs: [--v=4]}\n", o); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d, out := run{config: cloudDocument + "controllerManager: {extraArgs: [--v=5]}\n", options: o}.must(t, m)
	fails := Phase{Name: "cleanup", Run: func(context.Context, *Data) error { return errors.New("the API server answers 503") }}
	if err := Run(t.Context(), d, []Phase{applyPreflight(), addon(), fails}); err == nil {
		t.Fatalf("it has not failed\n%s", out)
	}
	runs, text := journalOf(t)
	if len(runs) != 2 || len(runs[1].Steps) != 1 || runs[1].Steps[0].State != journal.Done ||
		runs[1].State != journal.Failed {
		t.Fatalf("the journal says\n%s", text)
	}
	if newest, err := NewestChange(t.Context(), client, runs); err != nil || newest.ID != 2 {
		t.Errorf("rollback leads back from %+v, %v", newest, err)
	}
}
