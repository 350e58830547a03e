package phases

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// What a user has switched off stays off: adopt switches on only what it has held.
func TestCluster_Adopt_LifecycleOff(t *testing.T) {
	m, client := bySample(t)
	change := func(to v1alpha1.Lifecycle) {
		t.Helper()
		o := Options{Living: true, Flags: v1alpha1.CloudConfiguration{Lifecycle: to}}
		d, out := run{options: o}.must(t, m)
		if err := Run(t.Context(), d, []Phase{rbac(), addon(), record()}); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	want := func(when string, lifecycle v1alpha1.Lifecycle, held bool) {
		t.Helper()
		rec, err := readRecord(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		if is := mayDeleteNodes(t, client); rec.Configuration.Lifecycle != lifecycle || ptr.Deref(rec.LifecycleHeld, false) != held ||
			is != (lifecycle == v1alpha1.LifecycleGuarded) {
			t.Errorf("%s: Nodes may be deleted: %v, the record says %s, held %v", when, is, rec.Configuration.Lifecycle,
				ptr.Deref(rec.LifecycleHeld, false))
		}
	}
	adopt := func() {
		t.Helper()
		d, out := adoption(t, m, Options{Flags: v1alpha1.CloudConfiguration{Provider: "sample"}}, Adoption{Yes: true})
		plan, err := plannedNodes(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range plan {
			if !n.initialized {
				t.Errorf("%s would be initialized anew", n.name)
			}
		}
		runAll(t.Context(), t, d, out, []Phase{
			held(begin()), held(rbac()), held(addon()), resolved(rbac()), resolved(addon()), resolved(record()),
		})
	}
	change(v1alpha1.LifecycleOff)
	want("switched off", v1alpha1.LifecycleOff, false)
	adopt()
	want("and adopted", v1alpha1.LifecycleOff, false)
	change(v1alpha1.LifecycleGuarded)
	want("switched on", v1alpha1.LifecycleGuarded, false)
}

// Off for the time of an adoption is noted as that, and stays noted whatever else changes.
func TestCluster_Adopt_LifecycleHeld(t *testing.T) {
	m, client := plain(t)
	held := func(when string, want bool) {
		t.Helper()
		rec, err := readRecord(t.Context(), client)
		if err != nil || ptr.Deref(rec.LifecycleHeld, false) != want || (rec.Configuration.Lifecycle == v1alpha1.LifecycleOff) != want {
			t.Errorf("%s: %+v, %v", when, rec, err)
		}
	}
	d, out := adoption(t, m, Options{}, Adoption{Yes: true})
	runAll(t.Context(), t, d, out, []Phase{resolved(record())}) // with nodes that are not known
	held("left out", true)
	other := Options{Living: true, Flags: v1alpha1.CloudConfiguration{NodeIP: "198.18.0.0/16"}}
	d, out = run{options: other}.must(t, m)
	if err := Run(t.Context(), d, []Phase{record()}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	held("and changed", true)
	knowAll(t, client, map[string]string{v1alpha1.ProvidedNodeIPAnnotation: "x"})
	d, out = adoption(t, m, Options{}, Adoption{Yes: true})
	runAll(t.Context(), t, d, out, []Phase{resolved(record())})
	held("all known", false)
}

// A record of before it said who holds the lifecycle: who has switched it off is in the journal, whatever has been
// applied since. What adopt has held it switches on; what a user has switched off stays so.
func TestCluster_Adopt_LifecycleOfFormerRelease(t *testing.T) {
	for _, tt := range []struct {
		name, command string
		want          v1alpha1.Lifecycle
	}{
		{"held by adopt", "adopt", v1alpha1.LifecycleGuarded},
		{"switched off by apply", "apply", v1alpha1.LifecycleOff},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, client := bySample(t)
			written := formerRelease(t, m, client, tt.command)
			other := Options{Living: true, Flags: v1alpha1.CloudConfiguration{NodeIP: "198.18.0.0/16"}}
			d, out := run{options: other}.must(t, m)
			if err := Run(t.Context(), d, []Phase{record()}); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			d, out = adoption(t, m, Options{Flags: v1alpha1.CloudConfiguration{Provider: "sample"}}, Adoption{Yes: true})
			runAll(t.Context(), t, d, out, []Phase{resolved(rbac()), resolved(addon()), resolved(record())})
			rec, err := readRecord(t.Context(), client)
			may := mayDeleteNodes(t, client)
			if err != nil || rec.Configuration.Lifecycle != tt.want || may != (tt.want == v1alpha1.LifecycleGuarded) {
				t.Errorf("Nodes may be deleted: %v, and the record says %+v, %v", may, rec, err)
			}
			runs, _ := journalOf(t)
			c, _, err := FormerSettings(runs, &journal.Run{ID: 99, Before: written})
			if err != nil || (c.Lifecycle == v1alpha1.LifecycleOff) != (tt.want == v1alpha1.LifecycleOff) {
				t.Errorf("a rollback to that record would say %s, %v", c.Lifecycle, err)
			}
		})
	}
}

// formerRelease leaves a cluster as a run of the former release does that has switched the lifecycle off, and returns its
// record.
func formerRelease(t *testing.T, m *machine.Machine, client kubernetes.Interface, command string) string {
	t.Helper()
	maps := client.CoreV1().ConfigMaps(v1alpha1.Namespace)
	cm, err := maps.Get(t.Context(), v1alpha1.RecordName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := cm.Data[v1alpha1.RecordKey]
	o := Options{Living: true, Flags: v1alpha1.CloudConfiguration{Lifecycle: v1alpha1.LifecycleOff}}
	d, out := run{options: o}.must(t, m)
	for _, p := range []Phase{rbac(), addon(), record()} {
		if err := p.Run(t.Context(), d); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if cm, err = maps.Get(t.Context(), v1alpha1.RecordName, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	written := strings.Replace(cm.Data[v1alpha1.RecordKey], "lifecycleHeld: false\n", "", 1)
	if written == cm.Data[v1alpha1.RecordKey] {
		t.Fatalf("what is switched off is not noted as the user's:\n%s", written)
	}
	as := corev1ac.ConfigMap(v1alpha1.RecordName, v1alpha1.Namespace).WithLabels(cm.Labels).
		WithData(map[string]string{v1alpha1.RecordKey: written})
	force := metav1.ApplyOptions{FieldManager: v1alpha1.FieldManager, Force: true}
	if _, err := maps.Apply(t.Context(), as, force); err != nil {
		t.Fatal(err)
	}
	for _, run := range []journal.Run{{Command: command, Before: before}, {Command: command, Before: written}} {
		j, err := journal.Open(t.Context(), client, run)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return written
}
