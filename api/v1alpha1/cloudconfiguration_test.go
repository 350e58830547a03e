package v1alpha1

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const configHead = "apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\n"

func TestDecodeCloudConfiguration(t *testing.T) {
	got, err := DecodeCloudConfiguration("/x/ccmadm.yaml", 1, []byte(configHead+`provider: onprem
mode: DaemonSet
cloudConfig: {file: cloud.conf}
nodeIP: 10.0.0.0/8
wait: {timeout: 90s}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &CloudConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: ConfigKind},
		Provider: "onprem", Mode: ModeDaemonSet, NodeIP: "10.0.0.0/8",
		CloudConfig: CloudConfigFile{File: "/x/cloud.conf"},
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
	for _, tc := range []struct{ name, doc, wantErr string }{
		{"an unknown field", configHead + "controllerManager: {imag: x}", `unknown field "controllerManager.imag"`},
		{"a field given twice", configHead + "mode: Manual\nmode: DaemonSet", `"mode" already set`},
		{"the wrong case", configHead + "NodeIP: Auto", `unknown field "NodeIP"`},
		{"an unknown provider", configHead + "provider: onpremm", "CloudConfiguration: provider: Invalid value"},
		{"an unknown mode", configHead + "mode: Pod", `mode: Unsupported value: "Pod"`},
		{"another version", strings.Replace(configHead, "v1alpha1", "v9", 1), `"ccmadm.dev/v9"`},
		{"a node IP that is none", configHead + "nodeIP: 10.0.0.256", "nodeIP: Invalid value"},
		{"two node IPs of one family", configHead + "nodeIP: 10.0.0.1,10.0.0.2", "one of each family"},
		{"an argument without a value", configHead + "controllerManager: {extraArgs: ['--v']}", "controllerManager.extraArgs[0]"},
		{"a variable without a value", configHead + "controllerManager: {extraEnv: [REGION]}", "controllerManager.extraEnv[0]: Invalid value"},
		{"a variable that is none", configHead + "controllerManager: {extraEnv: ['1 a=b']}", "must have the form NAME=value"},
		{"an image and a version", configHead + "controllerManager: {image: 'a:1', version: '2'}", "controllerManager.version"},
		{"a credential from nowhere", configHead + "credentials: [{key: token}]", "credentials[0]"},
		{"a cluster name with blanks", configHead + "clusterName: my cluster", "clusterName"},
		{"a negative timeout", configHead + "wait: {timeout: -1s}", "wait.timeout"},
		{"a timeout without unit", configHead + "wait: {timeout: 90}", "wait.timeout of type string"},
		{"a list", "- a", "cannot unmarshal"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := DecodeCloudConfiguration("k.yaml", 7, []byte(tc.doc), refuseOnpremm)
			if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("got %v, want %q", err, tc.wantErr)
			}
			if !strings.Contains(err.Error(), "k.yaml:7") {
				t.Errorf("%v does not say where", err)
			}
		})
	}
}

func TestCloudConfiguration_Override(t *testing.T) {
	c := &CloudConfiguration{Provider: "a", Mode: ModeDaemonSet, ControllerManager: ControllerManager{Image: "a:1", ExtraArgs: []string{"--v=1"}}}
	c.Override(&CloudConfiguration{Provider: "b", Routes: true, ControllerManager: ControllerManager{Version: "v2"}})
	c.Default()
	want := &CloudConfiguration{Provider: "b", Mode: ModeDaemonSet, Routes: true, ControllerManager: ControllerManager{Version: "v2", ExtraArgs: []string{"--v=1"}}}
	want.Default()
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}
