package v1alpha1

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRecord_RoundTrip(t *testing.T) {
	rec := &Record{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: RecordKind}, PodSubnet: "10.244.0.0/16,fd00::/48", WrittenBy: "v1"}
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
	if _, err := DecodeRecord("x", append(data, "newField: {a: b}\n"...)); err != nil {
		t.Errorf("a field that is not known: %v", err)
	}
}

func TestDecodeRecord_BadInput(t *testing.T) {
	const head = "apiVersion: ccmadm.dev/v1alpha1\nkind: Record\n"
	for _, tc := range []struct{ name, data, wantErr string }{
		{"nothing", "", `kind "", want`},
		{"another kind", strings.Replace(head, "Record", "Pod", 1), `kind "Pod"`},
		{"another version", strings.Replace(head, "v1alpha1", "v9", 1), "ccmadm.dev/v9"},
		{"not YAML", "a: [", "read ConfigMap"},
	} {
		_, err := DecodeRecord("ConfigMap", []byte(tc.data))
		if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.wantErr)
		}
	}
}
