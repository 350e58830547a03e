package main

import (
	"slices"
	"testing"

	"github.com/ccmadm/ccmadm/api/config"
)

// What the file of -f says is rehearsed, as what flags say.
func TestRehearsalArgs(t *testing.T) {
	said := &config.CloudConfiguration{
		Provider: "aws", CloudConfig: config.CloudConfigFile{File: "/etc/cloud.conf"},
		Credentials: []config.Credential{{Key: "a", File: "/etc/a"}, {Key: "b", Env: "B"}},
	}
	said.ControllerManager.ExtraArgs = []string{"--v=4", "--master=x"}
	want := []string{
		"--binary=./ccm", "--kubeconfig=/etc/kubernetes/admin.conf", "--provider=aws", "--cloud-config=/etc/cloud.conf",
		"--credential=a=/etc/a", "--credential=b=env:B", "--arg=--v=4",
	}
	if got := rehearsalArgs("./ccm", "ccmadm:v1", said); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	said.ControllerManager.Version = "v7"
	want = append([]string{"--image-tag=v7", "--node-image=ccmadm:v1"}, want[1:]...)
	if got := rehearsalArgs("", "ccmadm:v1", said); !slices.Equal(got, want) {
		t.Errorf("in a pod: got %q, want %q", got, want)
	}
}
