package phases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/rollback"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// modeOf is how far a change of mode has come, as text.
func modeOf(t *testing.T, client kubernetes.Interface, m *machine.Machine) string {
	t.Helper()
	rec, err := workflow.ReadRecord(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("managers %s, permissions of %s, recorded %s %v, identity %v", phasestest.Managers(t, client, m), phasestest.Who(t, client),
		rec.Configuration.Mode, rec.Configuration.ControllerManager.ExtraArgs, machinetest.Content(m, machine.CCMKubeconfig) != "")
}

// cutShort runs the first phases of a change, and leaves it there, as a process that is killed does. Its Lease is taken
// for old at once.
func cutShort(t *testing.T, client kubernetes.Interface, m *machine.Machine, file string, phases int) {
	t.Helper()
	r, out := phasestest.Run{Config: file, Inputs: workflow.Inputs{Existing: true, Command: "apply"}}.Must(t, m)
	for _, p := range manager.Apply()[:phases] {
		if p.Name == "rollout" {
			continue
		}
		if err := p.Do(t.Context(), r); err != nil {
			t.Fatalf("%s: %v\n%s", p.Name, err, out)
		}
	}
	err := client.CoordinationV1().Leases("kube-system").Delete(t.Context(), v1alpha1.RunLeaseName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// A change of mode that was cut short behind any phase is completed by the same command, and undone by a rollback.
func TestCluster_Apply_CutShortBehindEachPhase(t *testing.T) {
	m := existingtest.LivingAs(t, config.CloudConfiguration{Provider: "onprem", Mode: config.ModeDaemonSet, ClusterName: "ber1"})
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	change := func(mode config.Mode, level int) string {
		return fmt.Sprintf("%smode: %s\ncontrollerManager: {extraArgs: [--v=%d]}\n", phasestest.CloudDocument, mode, level)
	}
	apply := func(t *testing.T, file string, o workflow.Inputs) {
		t.Helper()
		if out, _, err := existingtest.ApplyRun(t, m, file, o); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	modes := []config.Mode{config.ModeDaemonSet, config.ModeStaticPod}
	apply(t, change(modes[0], 2), workflow.Inputs{})
	for i := 2; i <= len(manager.Apply()); i++ {
		if manager.Apply()[i-1].Name == "rollout" {
			continue
		}
		t.Run("behind "+manager.Apply()[i-1].Name, func(t *testing.T) {
			for range modes { // from each to the other
				before := modeOf(t, client, m)
				runs, _ := phasestest.JournalOf(t)
				cutShort(t, client, m, change(modes[1], 4), i)
				if now, _ := phasestest.JournalOf(t); phasestest.Newest(now).ID > phasestest.Newest(runs).ID { // else it has changed nothing
					back, _, err := rollback.FormerSettings(phasestest.Newest(now))
					if err != nil {
						t.Fatal(err)
					}
					apply(t, "", workflow.Inputs{Command: "rollback", Request: workflow.Request{Flags: *back}})
				}
				if after := modeOf(t, client, m); after != before {
					t.Errorf("after a rollback: %s; want %s", after, before)
				}
				cutShort(t, client, m, change(modes[1], 4), i)
				apply(t, change(modes[1], 4), workflow.Inputs{Command: "apply"})
				done := modeOf(t, client, m)
				if out, changed, err := existingtest.ApplyRun(t, m, change(modes[1], 4), workflow.Inputs{}); err != nil || changed {
					t.Errorf("once more: changed %v, %v\n%s", changed, err, out)
				}
				t.Logf("%s -> %s", before, done)
				apply(t, change(modes[1], 2), workflow.Inputs{})
				slices.Reverse(modes)
			}
		})
	}
}

// What has failed on another control plane is repeated there; where that has left the cluster, nothing is left to repeat.
func TestCluster_Apply_ClosesARunOfAMachineThatIsGone(t *testing.T) {
	m := existingtest.Living(t)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	failed, err := journal.Open(t.Context(), client, journal.Run{Command: "apply", Machine: "cp2"})
	if err != nil {
		t.Fatal(err)
	}
	if err := failed.End(t.Context(), errors.New("the static pod does not start")); err != nil {
		t.Fatal(err)
	}
	apply := func(want string) {
		t.Helper()
		if out, _, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{Command: "apply"}); err != nil || !strings.Contains(out, want) {
			t.Errorf("%v, want %q\n%s", err, want, out)
		}
	}
	phasestest.AddNode(t, client, "cp2", "192.0.2.12", nil)
	apply("run 1, ccmadm apply on cp2, has not succeeded: unless it is under way, repeat it there")
	if err := client.CoreV1().Nodes().Delete(t.Context(), "cp2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apply("run 1 of the journal was cut short or failed, and nothing was left to change: closed")
	if runs, text := phasestest.JournalOf(t); workflow.LeftOpen(runs, "apply") != nil {
		t.Errorf("the journal says\n%s", text)
	}
}
