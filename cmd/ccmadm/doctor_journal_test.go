package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// TestClusterDoctor_WrittenDown has a record of another version, and a journal that somebody edits.
func TestClusterDoctor_WrittenDown(t *testing.T) {
	client, err := kubernetes.NewForConfig(cluster.Config)
	check(t, err)
	ctx, maps := context.WithoutCancel(t.Context()), client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	j, err := journal.Open(ctx, client, journal.Run{Command: "apply"})
	check(t, err)
	check(t, j.Close(ctx))
	t.Cleanup(func() { check(t, maps.Delete(ctx, v1alpha1.JournalName, metav1.DeleteOptions{})) })
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.RecordName}, Data: map[string]string{
		v1alpha1.RecordKey: "apiVersion: ccmadm.dev/v1alpha1\nkind: Record\nconfiguration: {provider: onprem}\n",
	}}
	record, err = maps.Create(ctx, record, metav1.CreateOptions{})
	check(t, err)
	t.Cleanup(func() { check(t, maps.Delete(ctx, v1alpha1.RecordName, metav1.DeleteOptions{})) })
	if out, _ := doctorAsAdmin(t, ""); strings.Contains(out, " O1 ") || strings.Contains(out, " O2 ") {
		t.Errorf("what can be read is doubted:\n%s", out)
	}

	record.Data[v1alpha1.RecordKey] = strings.Replace(record.Data[v1alpha1.RecordKey], "v1alpha1", "v9", 1)
	_, err = maps.Update(ctx, record, metav1.UpdateOptions{})
	check(t, err)
	written, err := maps.Get(ctx, v1alpha1.JournalName, metav1.GetOptions{})
	check(t, err)
	for key, text := range written.Data {
		written.Data[key] = "# edited\n" + text
	}
	_, err = maps.Update(ctx, written, metav1.UpdateOptions{})
	check(t, err)
	out, status := doctorAsAdmin(t, "")
	for _, want := range []string{
		"warning O1 ", "ccmadm.dev/v9", "kubectl -n kube-system edit configmap ccmadm-config",
		"warning O2 ", "it was edited by hand", "kubectl -n kube-system delete configmap ccmadm-journal",
	} {
		if status != 6 || !strings.Contains(out, want) {
			t.Errorf("exit status %d, %q is not said:\n%s", status, want, out)
		}
	}
}

// TestClusterDoctor_Unfinished: a command that stopped halfway is named, with the one that goes on, and is not once it has
// come to its end. One that is under way is none.
func TestClusterDoctor_Unfinished(t *testing.T) {
	client, err := kubernetes.NewForConfig(cluster.Config)
	check(t, err)
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		check(t, client.CoreV1().ConfigMaps(v1alpha1.Namespace).Delete(ctx, v1alpha1.JournalName, metav1.DeleteOptions{}))
	})
	run := journal.Run{Command: "adopt", Machine: "cp1", Line: "ccmadm adopt --provider=onprem --via=pods"}
	kubelet := journal.Step{Name: "kubelet", Node: "w1"}
	open := func() *journal.Journal {
		j, err := journal.Open(ctx, client, run)
		check(t, err)
		return j
	}
	j := open()
	check(t, j.Do(ctx, journal.Step{Name: "addon"}, func(context.Context) error { return nil }))
	out, _ := doctorAsAdmin(t, "") // while the run renews its Lease
	if strings.Contains(out, " O3 ") {
		t.Errorf("a run that is under way is told to be unfinished:\n%s", out)
	}
	stopped := errors.New("wait for Node/w1: interrupted")
	if err := j.Do(ctx, kubelet, func(context.Context) error { return stopped }); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	check(t, j.End(ctx, stopped))
	out, status := doctorAsAdmin(t, "")
	for _, want := range []string{
		"warning O3 ", "ccmadm adopt on cp1, run 1 of the journal, failed after 1 step, at step kubelet of Node/w1: wait for Node/w1",
		"on cp1: ccmadm adopt --provider=onprem --via=pods",
	} {
		if status != 6 || !strings.Contains(out, want) {
			t.Errorf("exit status %d, %q is not said:\n%s", status, want, out)
		}
	}
	j = open()
	check(t, j.Do(ctx, kubelet, func(context.Context) error { return nil }))
	check(t, j.Close(ctx))
	if out, _ = doctorAsAdmin(t, ""); strings.Contains(out, " O3 ") {
		t.Errorf("it has come to its end:\n%s", out)
	}
}

// Who may not read the journal is told so, and nothing is said of what is in it.
func TestClusterDoctor_JournalForbidden(t *testing.T) {
	files, said, _ := supportBundle(t, t.TempDir(), "journal-viewer")
	if !strings.Contains(files["not-seen.txt"], "the cluster's journal: ") || strings.Contains(files["diagnosis.txt"], "O2") {
		t.Errorf("got %s\n%s", files["not-seen.txt"], said)
	}
}
