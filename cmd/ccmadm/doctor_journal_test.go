package main

import (
	"context"
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

// Who may not read the journal is told so, and nothing is said of what is in it.
func TestClusterDoctor_JournalForbidden(t *testing.T) {
	files, said, _ := supportBundle(t, t.TempDir(), "journal-viewer")
	if !strings.Contains(files["not-seen.txt"], "the cluster's journal: ") || strings.Contains(files["diagnosis.txt"], "O2") {
		t.Errorf("got %s\n%s", files["not-seen.txt"], said)
	}
}
