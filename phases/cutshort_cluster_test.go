package phases

import (
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// modeOf is how far a change of mode has come, as text.
func modeOf(t *testing.T, client kubernetes.Interface, m *machine.Machine) string {
	t.Helper()
	rec, err := readRecord(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("managers %s, permissions of %s, recorded %s %v, identity %v", managers(t, client, m), who(t, client),
		rec.Configuration.Mode, rec.Configuration.ControllerManager.ExtraArgs, machinetest.Content(m, machine.CCMKubeconfig) != "")
}

// cutShort runs the first phases of a change, and leaves it there, as a process that is killed does. Its Lease is taken
// for old at once.
func cutShort(t *testing.T, client kubernetes.Interface, m *machine.Machine, file string, phases int) {
	t.Helper()
	d, out := run{config: file, options: Options{Living: true, Command: "apply"}}.must(t, m)
	for _, p := range Apply()[:phases] {
		if p.Name == "rollout" {
			continue
		}
		if err := p.run(t.Context(), d); err != nil {
			t.Fatalf("%s: %v\n%s", p.Name, err, out)
		}
	}
	err := client.CoordinationV1().Leases("kube-system").Delete(t.Context(), v1alpha1.RunLeaseName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func newest(runs []journal.Run) *journal.Run {
	if len(runs) == 0 {
		return &journal.Run{}
	}
	return &runs[len(runs)-1]
}

// A change of mode that was cut short behind any phase is completed by the same command, and undone by a rollback.
func TestCluster_Apply_CutShortBehindEachPhase(t *testing.T) {
	m := livingAs(t, v1alpha1.CloudConfiguration{Provider: "onprem", Mode: v1alpha1.ModeDaemonSet, ClusterName: "ber1"})
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	change := func(mode v1alpha1.Mode, level int) string {
		return fmt.Sprintf("%smode: %s\ncontrollerManager: {extraArgs: [--v=%d]}\n", cloudDocument, mode, level)
	}
	apply := func(t *testing.T, file string, o Options) {
		t.Helper()
		if out, _, err := applyRun(t, m, file, o); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	modes := []v1alpha1.Mode{v1alpha1.ModeDaemonSet, v1alpha1.ModeStaticPod}
	apply(t, change(modes[0], 2), Options{})
	for i := 2; i <= len(Apply()); i++ {
		if Apply()[i-1].Name == "rollout" {
			continue
		}
		t.Run("behind "+Apply()[i-1].Name, func(t *testing.T) {
			for range modes { // from each to the other
				before := modeOf(t, client, m)
				runs, _ := journalOf(t)
				cutShort(t, client, m, change(modes[1], 4), i)
				if now, _ := journalOf(t); newest(now).ID > newest(runs).ID { // else it has changed nothing
					back, _, err := FormerSettings(newest(now))
					if err != nil {
						t.Fatal(err)
					}
					apply(t, "", Options{Command: "rollback", Flags: *back})
				}
				if after := modeOf(t, client, m); after != before {
					t.Errorf("after a rollback: %s; want %s", after, before)
				}
				cutShort(t, client, m, change(modes[1], 4), i)
				apply(t, change(modes[1], 4), Options{Command: "apply"})
				done := modeOf(t, client, m)
				if out, changed, err := applyRun(t, m, change(modes[1], 4), Options{}); err != nil || changed {
					t.Errorf("once more: changed %v, %v\n%s", changed, err, out)
				}
				t.Logf("%s -> %s", before, done)
				apply(t, change(modes[1], 2), Options{})
				slices.Reverse(modes)
			}
		})
	}
}
