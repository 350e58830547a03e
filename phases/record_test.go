package phases

import (
	"errors"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func asKnown(err error, target **finding.Error) bool { return errors.As(err, target) }

func TestRecord_RoundTrip(t *testing.T) {
	rec := &Record{TypeMeta: metav1.TypeMeta{APIVersion: ConfigAPIVersion, Kind: RecordKind}, PodSubnet: "10.244.0.0/16,fd00::/48", WrittenBy: "v1"}
	rec.Configuration.Default()
	data, err := rec.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeRecord("x", data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rec, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	// A newer ccmadm may say more; a machine with an older one must still be able to join.
	if _, err := decodeRecord("x", append(data, "newField: {a: b}\n"...)); err != nil {
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
		{"an unknown provider", head + "configuration: {provider: nobody}", "nobody"},
	} {
		_, err := decodeRecord("ConfigMap", []byte(tc.data))
		if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.wantErr)
		}
	}
}

func TestData_Contradiction(t *testing.T) {
	rec := &Record{Configuration: CloudConfiguration{Provider: "onprem", Mode: ModeStaticPod, ClusterName: "a"}}
	for _, tc := range []struct {
		name    string
		flags   CloudConfiguration
		wantErr string
	}{
		{name: "nothing said"},
		{name: "the same", flags: CloudConfiguration{Provider: "onprem", Mode: ModeStaticPod, ClusterName: "a"}},
		{name: "Auto is no contradiction", flags: CloudConfiguration{Mode: ModeAuto}},
		{name: "the node IP is the machine's own", flags: CloudConfiguration{NodeIP: "Default"}},
		{name: "another profile", flags: CloudConfiguration{Profile: "record_test.go"}, wantErr: "join with record_test.go: it is not the profile of the cluster's record, whose provider is onprem"},
		{name: "another provider", flags: CloudConfiguration{Provider: "other"}, wantErr: `join with provider "other": the cluster's record says "onprem"`},
		{name: "another mode", flags: CloudConfiguration{Mode: ModeManual}, wantErr: "mode"},
		{name: "another release", flags: CloudConfiguration{ControllerManager: ControllerManager{Version: "v2"}}, wantErr: `join with controllerManager.version "v2": the cluster's record says ""`},
	} {
		err := (&Data{Options: Options{Flags: tc.flags}}).contradiction(rec)
		if (err == nil) != (tc.wantErr == "") || (err != nil && !strings.Contains(err.Error(), tc.wantErr)) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.wantErr)
		}
		var known *finding.Error
		if err != nil && (!errors.As(err, &known) || known.Code != finding.ExitRefused) {
			t.Errorf("%s: exit code is not %d", tc.name, finding.ExitRefused)
		}
	}
}
