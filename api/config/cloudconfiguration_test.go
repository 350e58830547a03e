package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const configHead = "apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\n"

func TestDecodeCloudConfiguration(t *testing.T) {
	got, err := DecodeCloudConfiguration("/x/ccmadm.yaml", 1, []byte(configHead+`provider: onprem
mode: DaemonSet
cloudConfig: {file: cloud.conf}
nodeIP: 10.0.0.0/8
routes: false
wait: {timeout: 90s}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &CloudConfiguration{
		TypeMeta:    metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: ConfigKind},
		Provider:    "onprem",
		Mode:        ModeDaemonSet,
		NodeIP:      "10.0.0.0/8",
		CloudConfig: CloudConfigFile{File: "/x/cloud.conf"},
		Routes:      new(false),
		Wait:        WaitPolicy{Timeout: metav1.Duration{Duration: 90 * time.Second}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// refuseOnpremm stands in for a caller that knows the profiles.
func refuseOnpremm(c *CloudConfiguration) field.ErrorList {
	if c.Provider == "onpremm" {
		return field.ErrorList{field.Invalid(field.NewPath("provider"), c.Provider, "there is none")}
	}
	return nil
}

func TestDecodeCloudConfiguration_BadInput(t *testing.T) {
	for _, tc := range []struct {
		name    string
		doc     string // behind configHead, which is lines 7 and 8 of the file
		wantErr string
	}{
		{
			name:    "an unknown provider",
			doc:     "provider: onpremm",
			wantErr: "read CloudConfiguration k.yaml:9: provider: Invalid value",
		},
		{
			name:    "an unknown mode",
			doc:     "\nmode: Pod",
			wantErr: `k.yaml:10: mode: Unsupported value: "Pod"`,
		},
		{
			name:    "an unknown lifecycle",
			doc:     "lifecycle: 'Off '",
			wantErr: `k.yaml:9: lifecycle: Unsupported value: "Off "`,
		},
		{
			name:    "a node IP that is none",
			doc:     "nodeIP: 10.0.0.256",
			wantErr: "k.yaml:9: nodeIP: Invalid value",
		},
		{
			name:    "two node IPs of one family",
			doc:     "nodeIP: 10.0.0.1,10.0.0.2",
			wantErr: "one of each family",
		},
		{
			name:    "an argument without a value",
			doc:     "controllerManager:\n  extraArgs:\n  - --v=2\n  - --v",
			wantErr: "k.yaml:12: controllerManager.extraArgs[1]",
		},
		{
			name:    "a variable without a value",
			doc:     "controllerManager: {extraEnv: [REGION]}",
			wantErr: "k.yaml:9: controllerManager.extraEnv[0]: Invalid value",
		},
		{
			name:    "a variable that is none",
			doc:     "controllerManager: {extraEnv: ['1 a=b']}",
			wantErr: "must have the form NAME=value",
		},
		{
			name:    "an image and a version",
			doc:     "controllerManager:\n  image: 'a:1'\n  version: '2'",
			wantErr: "k.yaml:11: controllerManager.version",
		},
		{
			name:    "a credential from nowhere",
			doc:     "credentials: [{key: token}]",
			wantErr: "k.yaml:9: credentials[0]: Required value: exactly one of file and env",
		},
		{
			name:    "a cluster name with blanks",
			doc:     "clusterName: my cluster",
			wantErr: "k.yaml:9: clusterName",
		},
		{
			name:    "a negative timeout",
			doc:     "wait: {timeout: -1s}",
			wantErr: "k.yaml:9: wait.timeout",
		},
		{
			name:    "a timeout without unit",
			doc:     "wait:\n  timeout: 90",
			wantErr: `k.yaml:10: wait.timeout: must be a duration like 90s or 5m, not "90"`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := DecodeCloudConfiguration("k.yaml", 7, []byte(configHead+tc.doc), refuseOnpremm)
			if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("got %v, want %q", err, tc.wantErr)
			}
			var known *finding.Error
			if !errors.As(err, &known) || known.Code != finding.ExitUsage || known.Hint == "" {
				t.Errorf("%#v has not exit code %d and a hint", err, finding.ExitUsage)
			}
		})
	}
}

func TestCloudConfiguration_Override(t *testing.T) {
	for _, tc := range []struct {
		name              string
		below, over, want CloudConfiguration
	}{
		{
			name:  "what is not said stays",
			below: CloudConfiguration{Provider: "a", Mode: ModeDaemonSet, Routes: new(true)},
			over:  CloudConfiguration{Provider: "b"},
			want:  CloudConfiguration{Provider: "b", Mode: ModeDaemonSet, Routes: new(true)},
		},
		{
			name:  "off is said as on is",
			below: CloudConfiguration{Routes: new(true)},
			over:  CloudConfiguration{Routes: new(false)},
			want:  CloudConfiguration{Routes: new(false)},
		},
		{
			name:  "a version replaces an image, and arguments stay",
			below: CloudConfiguration{ControllerManager: ControllerManager{Image: "a:1", ExtraArgs: []string{"--v=1"}}},
			over:  CloudConfiguration{ControllerManager: ControllerManager{Version: "v2"}},
			want:  CloudConfiguration{ControllerManager: ControllerManager{Version: "v2", ExtraArgs: []string{"--v=1"}}},
		},
		{
			name:  "an empty list is said",
			below: CloudConfiguration{Credentials: []Credential{{Key: "token", Env: "T"}}},
			over:  CloudConfiguration{Credentials: []Credential{}},
			want:  CloudConfiguration{Credentials: []Credential{}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.below
			got.Override(&tc.over)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCloudConfiguration_Resolve(t *testing.T) {
	c := &CloudConfiguration{
		Profile:     "/abs/profile.yaml",
		CloudConfig: CloudConfigFile{File: "cloud.conf"},
		Inventory:   "../machines.yaml",
		Credentials: []Credential{{Key: "a", File: "a"}, {Key: "b", Env: "B"}},
	}
	c.Resolve("/site/ber1")
	got := []string{c.Profile, c.CloudConfig.File, c.Inventory, c.Credentials[0].File, c.Credentials[1].File}
	want := []string{"/abs/profile.yaml", "/site/ber1/cloud.conf", "/site/machines.yaml", "/site/ber1/a", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

// What is printed for a reader says the same as the document, and names every field.
func TestCloudConfiguration_EncodeAll(t *testing.T) {
	c := &CloudConfiguration{Provider: "hetzner", ControllerManager: ControllerManager{ExtraArgs: []string{"--v=2"}}}
	c.Default()
	data, err := c.EncodeAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"clusterName: \"\"", "routes: false", "extraEnv: []", "  file: \"\"", "timeout: 5m0s"} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%q is missing:\n%s", want, data)
		}
	}
	got, err := DecodeCloudConfiguration("printed", 1, data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("printed and read again (-want +got):\n%s", diff)
	}
}
