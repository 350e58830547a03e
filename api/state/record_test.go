package state

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestRecord_RoundTrip(t *testing.T) {
	rec := &Record{PodSubnet: "10.244.0.0/16,fd00::/48", WrittenBy: "v1"}
	rec.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: RecordKind}
	rec.Configuration.Default()
	data, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeRecord("x", data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rec, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	// A newer ccmadm may say more; a machine with an older one must still be able to join.
	newer, err := DecodeRecord("x", append(data, "newField: {a: b}\n"...))
	if err != nil {
		t.Fatalf("a field that is not known: %v", err)
	}
	if !strings.Contains(newer.Newer, "newField") || got.Newer != "" {
		t.Errorf("fields that are not known: %q, and without any %q", newer.Newer, got.Newer)
	}
}

func TestDecodeRecord_BadInput(t *testing.T) {
	const head = "apiVersion: ccmadm.dev/v1alpha1\nkind: Record\n"
	for _, tc := range []struct{ name, data, wantErr string }{
		{"nothing", "", "read Record ConfigMap:1: there is nothing in it"},
		{"another kind", strings.Replace(head, "Record", "Pod", 1), `ConfigMap:2: kind: Unsupported value: "Pod"`},
		{"another version", strings.Replace(head, "v1alpha1", "v9", 1), "ccmadm.dev/v9"},
		{"not YAML", "a: [", "read Record ConfigMap:1: yaml: line 1"},
		{"a setting that is none", head + "configuration:\n  mode: Pod\n", `ConfigMap:4: configuration.mode: Unsupported`},
		{"a wrong type", head + "writtenBy: 1\n", `ConfigMap:3: writtenBy: must be text in quotes, not "1"`},
	} {
		_, err := DecodeRecord("ConfigMap", []byte(tc.data))
		if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.wantErr)
		}
	}
}

// A record of an earlier release is read, and its credentials are moved; a second time there are none.
func TestConceal(t *testing.T) {
	const planted = "hunter2hunter2"
	text := "apiVersion: " + v1alpha1.APIVersion + "\nkind: Record\nconfiguration: {controllerManager: {extraEnv: [A=1, DB_PASS=" + planted + "]}}\n"
	got := Conceal(text)
	if strings.Contains(got, planted) || !strings.Contains(got, "DB_PASS=${credential:env-DB_PASS}") || !strings.Contains(got, "A=1") {
		t.Errorf("got %s", got)
	}
	if again := Conceal(got); again != got {
		t.Errorf("a second time: %s", again)
	}
	r, err := DecodeRecord("r", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if moved := r.Configuration.ControllerManager.MoveCredentials(); string(moved["env-DB_PASS"]) != planted || len(moved) != 1 {
		t.Errorf("got %v", moved)
	}
}
