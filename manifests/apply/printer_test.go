package apply

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
)

func printer(t *testing.T, cfg *rest.Config) (*Printer, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	p, err := NewPrinter(cfg, &out)
	if err != nil {
		t.Fatal(err)
	}
	return p, &out
}

func goldenText(t *testing.T, got string) {
	t.Helper()
	file := filepath.Join("testdata", t.Name()+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestPrinter_NoCluster(t *testing.T) {
	p, out := printer(t, nil)
	wantChanges(t, changesWith("created", "ConfigMap/kube-system/ccmadm-config", "Role/kube-system/ccmadm:record",
		"RoleBinding/kube-system/ccmadm:record", "Role/kube-node-lease/ccmadm:record",
		"RoleBinding/kube-node-lease/ccmadm:record", "ConfigMap/kube-system/ccmadm-applied"), apply(t, p, "record", mustRecord(t)))
	goldenText(t, out.String())
}

// A credential that stands in another object than a Secret is not shown.
func TestPrinter_Credentials(t *testing.T) {
	const secret = "hunter2hunter2"
	p, out := printer(t, nil)
	apply(t, p, "credentials", []*manifests.Object{{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "kept", "namespace": "kube-system"},
		"data": map[string]any{
			"cloud.conf": "[Global]\npassword = one " + secret + "\n", "proxy": "http://u:" + secret + "@proxy:3128",
			"args":  "- --token\n- " + secret + "\n",
			"quote": "aadClientCertPassword: it's " + secret, "quoted": "id-token: '" + secret + "'",
			"words": "password = one two " + secret, "other letters": "password: über " + secret,
		},
	}}})
	if text := out.String(); strings.Contains(text, secret) || !strings.Contains(text, "kept") {
		t.Errorf("got\n%s", text)
	}
}

func TestPrinter_NobodyListens(t *testing.T) {
	p, out := printer(t, &rest.Config{Host: "https://127.0.0.1:1"})
	apply(t, p, "record", mustRecord(t))
	alone, want := printer(t, nil)
	apply(t, alone, "record", mustRecord(t))
	if diff := cmp.Diff(want.String(), out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestCluster_Printer(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	record := mustRecord(t)
	apply(t, c, "record", record)
	record[0].Object["data"] = map[string]any{v1alpha1.RecordKey: "provider: other\n"}
	before := versions(t, record)

	p, out := printer(t, cluster.Config)
	want := []Change{
		{Subject: "ConfigMap/kube-system/ccmadm-config", Action: "configured"},
		{Subject: "RoleBinding/kube-system/ccmadm:record", Action: "unchanged"},
		{Subject: "ConfigMap/kube-system/ccmadm-applied", Action: "configured"},
		{Subject: "Role/kube-node-lease/ccmadm:record", Action: "deleted"},
		{Subject: "RoleBinding/kube-node-lease/ccmadm:record", Action: "deleted"},
		{Subject: "Role/kube-system/ccmadm:record", Action: "deleted"},
	}
	wantChanges(t, want, apply(t, p, "record", []*manifests.Object{record[0], record[2]}))
	goldenText(t, out.String())

	if _, err := p.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, versions(t, mustRecord(t))); diff != "" {
		t.Errorf("a dry run wrote (-before +after):\n%s", diff)
	}
}

// What lacks our label stays, and what has gone is not deleted: a dry run says of neither that it would be.
func TestCluster_Printer_NotOurs(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	record := mustRecord(t)
	apply(t, c, Record, record)
	api := kubernetes.NewForConfigOrDie(cluster.Config).RbacV1()
	adopt := []byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"somebody"}}}`)
	const name, leases = "ccmadm:record", "kube-node-lease"
	if _, err := api.Roles(leases).Patch(t.Context(), name, types.MergePatchType, adopt, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Roles(leases).Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
	if err := api.RoleBindings(leases).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p, out := printer(t, cluster.Config)
	wantChanges(t, []Change{
		{Subject: "ConfigMap/kube-system/ccmadm-config", Action: "unchanged"},
		{Subject: "ConfigMap/kube-system/ccmadm-applied", Action: "configured"},
		{Subject: "Role/kube-system/ccmadm:record", Action: "deleted"},
		{Subject: "RoleBinding/kube-system/ccmadm:record", Action: "deleted"},
		{Subject: "Role/kube-node-lease/ccmadm:record", Action: "skipped"},
	}, apply(t, p, Record, record[:1]))
	all, err := p.Remove(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantChanges(t, changesWith("deleted", "Role/kube-system/ccmadm:record", "RoleBinding/kube-system/ccmadm:record",
		"ConfigMap/kube-system/ccmadm-applied", "ConfigMap/kube-system/ccmadm-config"), all)
	if strings.Contains(out.String(), "delete Role/kube-node-lease") || strings.Contains(out.String(), "delete RoleBinding/kube-node-lease") {
		t.Errorf("shown as deleted:\n%s", out)
	}
}

func TestCluster_Printer_ShowsConflicts(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	apply(t, c, "rbac", rbacObjects(t))
	edit(t)
	before := versions(t, rbacObjects(t))
	p, out := printer(t, cluster.Config)
	want := changesWith("unchanged", rbacSubjects()...)
	want[0].Action = "configured"
	got := apply(t, p, "rbac", rbacObjects(t))
	if conflict := got[0].Conflict; conflict == nil || conflict.Managers[0] != `"kubectl-edit"` {
		t.Errorf("the conflict is %v", conflict)
	}
	got[0].Conflict = nil
	for _, list := range [][]Change{want, got} { // a printer keeps the order of what it is given
		slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Subject, b.Subject) })
	}
	wantChanges(t, want, got)
	goldenText(t, out.String())
	if diff := cmp.Diff(before, versions(t, rbacObjects(t))); diff != "" {
		t.Errorf("a dry run wrote (-before +after):\n%s", diff)
	}
}

func TestCluster_Printer_MasksSecrets(t *testing.T) {
	secret := func(value string) []*manifests.Object {
		list, err := manifests.CloudConfigSecret(foreign(t), map[string][]byte{"cloud.conf": []byte("[Global]\nurl=" + value), "token": []byte(value)})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	c := newCluster(t, cluster.Config, false)
	p, out := printer(t, cluster.Config)
	apply(t, p, "cloud-config", secret("hunter2"))
	apply(t, c, "cloud-config", secret("hunter2"))
	copied := []byte(`{"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"token\":\"aHVudGVyMg==\"}}"}}}`)
	secrets := kubernetes.NewForConfigOrDie(cluster.Config).CoreV1().Secrets(v1alpha1.Namespace)
	if _, err := secrets.Patch(t.Context(), v1alpha1.CloudConfigName, types.MergePatchType, copied, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, p, "cloud-config", secret("hunter3"))
	for _, old := range []string{"hunter", "aHVudGVy", "PWh1bnRlc", "odW50ZX"} {
		if strings.Contains(out.String(), old) {
			t.Errorf("output shows %q:\n%s", old, out)
		}
	}
	if got := strings.Count(out.String(), "[dryrun] would"); got != 3 {
		t.Errorf("got %d objects, want the Secret created, the list created, the Secret changed:\n%s", got, out)
	}
}
