package adoption

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	metadataclient "k8s.io/client-go/metadata"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/rollback"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// back runs what leads back to before the newest run, but for what needs kubelets: those are TestAdopt_Rollback's.
func back(t *testing.T, m *machine.Machine, client kubernetes.Interface) {
	t.Helper()
	o, list := wayBack(t, client)
	r, out := adoption(t, m, *o, *o.Operation.(*Adoption))
	for _, p := range list {
		switch p.Name {
		case "rollout", "nodes", "lifecycle", "kubeadm-config":
			continue
		}
		if err := p.Do(t.Context(), r); err != nil {
			t.Fatalf("%s: %v\n%s", p.Name, err, out)
		}
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// cutAdoption runs the first phases of adopt or leave, and leaves them as a process that is killed does.
func cutAdoption(t *testing.T, m *machine.Machine, client kubernetes.Interface, o workflow.Inputs, list []workflow.Phase) {
	t.Helper()
	beginAdoption(t, m, o, list)
	phasestest.Abandon(t, client)
}

// beginAdoption runs the first phases of adopt or leave, and is alive.
func beginAdoption(t *testing.T, m *machine.Machine, o workflow.Inputs, list []workflow.Phase) *workflow.Run {
	t.Helper()
	o.Existing = true
	r, out := phasestest.Run{Inputs: o}.Must(t, m)
	for _, p := range list {
		if p.Name == "rollout" || p.Name == "nodes" {
			continue
		}
		if err := p.Do(t.Context(), r); err != nil {
			t.Fatalf("%s: %v\n%s", p.Name, err, out)
		}
	}
	return r
}

// A run of adopt that was cut short behind any phase is led back to a cluster without ccmadm, and one of leave to what
// the cluster was before it.
func TestCluster_Rollback_AdoptAndLeave(t *testing.T) {
	m, client := plain(t)
	adopted := config.CloudConfiguration{
		Provider: "onprem", Mode: config.ModeDeployment,
		ControllerManager: config.ControllerManager{ExtraArgs: []string{"--v=4"}},
	}
	adopt := workflow.Inputs{Command: "adopt", Operation: &Adoption{Yes: true}, Request: workflow.Request{Flags: adopted}}
	for i := 3; i <= 6; i++ { // former-provider, begin, cloud-config, rbac, addon
		cutAdoption(t, m, client, adopt, Adopt()[:i])
		back(t, m, client)
		expectNothingOfOurs(t, m)
	}
	for i := 2; i < len(Leave()); i++ {
		cutAdoption(t, m, client, adopt, Adopt()[:6])
		leave := workflow.Inputs{Command: "leave", Operation: &Adoption{Leave: true, Yes: true}}
		cutAdoption(t, m, client, leave, Leave()[:i])
		back(t, m, client)
		rec, err := workflow.ReadRecord(t.Context(), client)
		if err != nil {
			t.Fatalf("behind %s: %v", Leave()[i-1].Name, err)
		}
		manager, err := client.AppsV1().Deployments("kube-system").Get(t.Context(), "onprem-cloud-controller-manager",
			metav1.GetOptions{})
		if err != nil {
			t.Fatalf("behind %s: %v", Leave()[i-1].Name, err)
		}
		args := manager.Spec.Template.Spec.Containers[0].Args
		if c := rec.Configuration; c.Mode != config.ModeDeployment || !equal(c.ControllerManager.ExtraArgs, args) {
			t.Errorf("behind %s the record says %+v, and the manager has %q", Leave()[i-1].Name, c, args)
		}
		back(t, m, client) // and there again
		expectNothingOfOurs(t, m)
	}
}

// equal tells whether what was said is behind the manager's own arguments.
func equal(said, args []string) bool {
	return len(said) == 1 && len(args) > 0 && args[len(args)-1] == said[0]
}

// nudge changes the definitions that are being deleted: the API server may have forgotten one, see
// [apply.LeavingError].
func nudge(t *testing.T) {
	t.Helper()
	definitions, err := metadataclient.NewForConfig(phasestest.Cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	client := definitions.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		if o.DeletionTimestamp == nil {
			continue
		}
		_, err := client.Patch(t.Context(), o.Name, types.MergePatchType, []byte(`{"metadata":{"annotations":{"nudged":"yes"}}}`),
			metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}

// expectNothingOfOurs looks for what leave does not leave.
func expectNothingOfOurs(t *testing.T, m *machine.Machine) {
	t.Helper()
	r, _ := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	var names []string
	for i := range 200 { // definitions of resources take a moment to go
		if i == 20 {
			nudge(t)
		}
		left, err := leftOfOurs(t.Context(), r.Env, kindsOfOurs())
		if err != nil {
			t.Fatal(err)
		}
		names = nil
		for _, o := range left {
			if o.subject != "ConfigMap/kube-system/"+v1alpha1.JournalName {
				names = append(names, o.subject)
			}
		}
		if len(names) == 0 {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if len(names) > 0 {
		t.Errorf("left are %v", names)
	}
	if machinetest.Content(m, machine.RecordFile)+machinetest.Content(m, machine.StateFile) != "" {
		t.Error("the machine's notes are left")
	}
}

// A rollback of adopt that was killed after it had removed the record is ended by the same command, and can be undone then.
func TestCluster_Rollback_CutBehindTheRecord(t *testing.T) {
	m, client := plain(t)
	onprem := config.CloudConfiguration{Provider: "onprem"}
	cutAdoption(t, m, client, workflow.Inputs{
		Command: "adopt", Operation: &Adoption{Yes: true}, Request: workflow.Request{Flags: onprem},
	}, Adopt()[:6])
	runs, _ := phasestest.JournalOf(t)
	adopt := phasestest.Newest(runs)
	o, list := wayBack(t, client)
	cutAdoption(t, m, client, *o, list)
	closed := fmt.Sprintf("run %d of the journal was cut short or failed, and nothing was left to change: closed", adopt.ID+1)
	for _, want := range []string{closed, "nothing to do"} {
		runs, _ = phasestest.JournalOf(t)
		o, list, err := Back(t.Context(), client, runs, adopt, &Adoption{Yes: true})
		if err != nil {
			t.Fatal(err)
		}
		r, out := adoption(t, m, *o, *o.Operation.(*Adoption))
		if err := r.Do(t.Context(), list); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, want %q\n%s", err, want, out)
		}
	}
	runs, text := phasestest.JournalOf(t)
	last := phasestest.Newest(runs)
	if last.ID != adopt.ID+2 || last.State != journal.Done || last.Command != fmt.Sprintf("leave (rollback %d)", adopt.ID) {
		t.Fatalf("the journal says\n%s", text)
	}
	if o, _ = wayBack(t, client); o.Flags.Provider != "onprem" {
		t.Errorf("the way back has provider %q\n%s", o.Flags.Provider, text)
	}
}

// A leave that was killed after it had removed the record is ended by the same command: its phases go by the record.
func TestCluster_Leave_CutBehindTheRecord(t *testing.T) {
	m, client := plain(t)
	onprem := config.CloudConfiguration{Provider: "onprem"}
	cutAdoption(t, m, client, workflow.Inputs{
		Command: "adopt", Operation: &Adoption{Yes: true}, Request: workflow.Request{Flags: onprem},
	}, Adopt()[:6])
	if list, err := Ending(t.Context(), client); err != nil || list != nil {
		t.Errorf("with a record: %v, %v", list, err)
	}
	leave := workflow.Inputs{Command: "leave", Operation: &Adoption{Leave: true, Yes: true}}
	cutAdoption(t, m, client, leave, Leave())
	runs, _ := phasestest.JournalOf(t)
	cut := phasestest.Newest(runs)
	list, err := Ending(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	knowAll(t, client, map[string]string{v1alpha1.ProvidedNodeIPAnnotation: "x"})
	r, _ := adoption(t, m, leave, Adoption{Leave: true, Yes: true})
	here, err := workflow.NodeName(r.Host)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{here, "w1"}
	slices.Sort(names)
	wantHint(t, r.Do(t.Context(), list), lostRecord, "`ccmadm leave --skip "+strings.Join(names, ",")+"` ends it")
	r, out := adoption(t, m, leave, Adoption{Leave: true, Yes: true, Remote: fleet.Remote{Skip: names}})
	want := fmt.Sprintf("run %d of the journal was cut short or failed, and nothing was left to change: closed", cut.ID)
	if err := r.Do(t.Context(), list); err != nil || !strings.Contains(out.String(), want) {
		t.Errorf("%v, want %q\n%s", err, want, out)
	}
	runs, text := phasestest.JournalOf(t)
	if last := phasestest.Newest(runs); last.ID != cut.ID+1 || last.State != journal.Done || last.Before != cut.Before {
		t.Errorf("the journal says\n%s", text)
	}
	if list, err := Ending(t.Context(), client); err != nil || list != nil {
		t.Errorf("at its end: %v, %v", list, err)
	}
}

// wayBack is that of the newest run.
func wayBack(t *testing.T, client kubernetes.Interface) (*workflow.Inputs, []workflow.Phase) {
	t.Helper()
	runs, _ := phasestest.JournalOf(t)
	run, err := rollback.NewestChange(t.Context(), client, runs)
	if err != nil {
		t.Fatal(err)
	}
	o, list, err := Back(t.Context(), client, runs, run, &Adoption{Yes: true})
	if err != nil {
		t.Fatal(err)
	}
	return o, list
}

// A cluster whose record was lost is not one whose adoption had only begun.
func TestCluster_Rollback_LostRecord(t *testing.T) {
	m, client := plain(t)
	onprem := config.CloudConfiguration{Provider: "onprem"}
	adopt := workflow.Inputs{Command: "adopt", Operation: &Adoption{Yes: true}, Request: workflow.Request{Flags: onprem}}
	cutAdoption(t, m, client, adopt, Adopt()[:6])
	knowAll(t, client, map[string]string{v1alpha1.ProvidedNodeIPAnnotation: "x"})
	if err := client.CoreV1().ConfigMaps("kube-system").Delete(t.Context(), v1alpha1.RecordName,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	runs, _ := phasestest.JournalOf(t)
	o, list, err := Back(t.Context(), client, runs, phasestest.Newest(runs), &Adoption{Yes: true})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := adoption(t, m, *o, *o.Operation.(*Adoption))
	wantHint(t, list[0].Do(t.Context(), r), lostRecord, "run `ccmadm adopt` to write the record again")
	_, err = client.AppsV1().DaemonSets("kube-system").Get(t.Context(), "onprem-cloud-controller-manager", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		t.Error("the manager is gone")
	}
}

func TestRefuseAdoptedBefore(t *testing.T) {
	const rec = "a record"
	done, cut := journal.Done, journal.Begun
	for _, tt := range []struct {
		name    string
		runs    []journal.Run // the last is the one
		refused bool
	}{
		{"the first", []journal.Run{{Command: "adopt", State: cut}}, false},
		{"taken up", []journal.Run{{Command: "adopt", State: cut}, {Command: "adopt", State: done, Before: rec}}, false},
		{"taken up behind a leave that was cut short", []journal.Run{
			{Command: "adopt", State: cut},
			{Command: "leave", State: cut, Before: rec},
			{Command: "adopt (rollback 2)", State: done, Before: rec},
		}, false},
		{"more nodes", []journal.Run{{Command: "adopt", State: done}, {Command: "adopt", State: done, Before: rec}}, true},
		{"behind an apply", []journal.Run{
			{Command: "apply", State: cut, Before: rec}, {Command: "adopt", State: done, Before: rec},
		}, true},
		{"with a journal that was let go", []journal.Run{{Command: "adopt", State: done, Before: rec}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i := range tt.runs {
				tt.runs[i].ID = i + 1
			}
			err := refuseAdoptedBefore(tt.runs, &tt.runs[len(tt.runs)-1])
			if !tt.refused && err != nil {
				t.Error(err)
			}
			if tt.refused {
				phasestest.WantError(t, err, "the cluster had been adopted before it", finding.ExitRefused)
			}
		})
	}
}

// Only what a run of leave has taken out of external mode comes back to it.
func TestNeverExternal(t *testing.T) {
	taken := journal.Step{Name: kubeletStep, Before: flagExternal + " --node-ip=192.0.2.1"}
	step := func(node string) journal.Step { s := taken; s.Node = node; return s }
	was := journal.Step{Name: kubeletStep, Node: "w4", Before: noFlags}
	runs := []journal.Run{
		{ID: 1, Command: "leave", State: journal.Done, Steps: []journal.Step{step("w5")}},
		{ID: 2, Command: "adopt", State: journal.Done},
		{ID: 3, Command: "leave", State: journal.Begun, Steps: []journal.Step{step("w1")}},
		{ID: 4, Command: "leave", State: journal.Done, Steps: []journal.Step{step("w2"), was}},
	}
	var list []corev1.Node
	for _, name := range []string{"w1", "w2", "w3", "w4", "w5"} {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == "w3" {
			n.Annotations = map[string]string{v1alpha1.ProvidedNodeIPAnnotation: "192.0.2.3"}
		}
		list = append(list, n)
	}
	if got := neverExternal(list, takenOut(runs, &runs[3])); len(got) != 2 || got[0] != "w4" || got[1] != "w5" {
		t.Errorf("left as they are: %v", got)
	}
	// The next one has waited for a run that has come to its end, and had nothing to do.
	runs[3].State = journal.Done
	runs = append(runs, journal.Run{ID: 5, Command: "leave", State: journal.Done})
	if got := takenOut(runs, &runs[4]); len(got) != 2 || !got["w1"] || !got["w2"] {
		t.Errorf("taken out were %v", got)
	}
	runs[4].Steps = []journal.Step{step("w5")}
	if got := takenOut(runs, &runs[4]); len(got) != 1 || !got["w5"] {
		t.Errorf("the last one alone has taken out %v", got)
	}
}
