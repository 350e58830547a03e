package main

import (
	"bytes"
	"regexp"
	"slices"
	"testing"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/adoption"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// What the file of -f says is rehearsed, as what flags say; the name and the mirror are those of the adoption.
func TestRehearsalArgs(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.CopyCA(t, machinetest.NewCA(t), m.Path(machine.PKIDir))
	file, err := kubeadm.Parse("", nil)
	check(t, err)
	host := &workflow.Host{Env: workflow.NewEnv(m, workflow.Streams{}, version, false), KubeadmFile: file}
	resolved := &settings.Settings{CertificatesDir: machine.PKIDir, ImageRepository: "registry.local/k8s"}
	said := config.CloudConfiguration{
		Provider: "aws", CloudConfig: config.CloudConfigFile{File: "/etc/cloud.conf"},
		Credentials: []config.Credential{{Key: "a", File: "/etc/a"}, {Key: "b", Env: "B"}},
	}
	said.ControllerManager.ExtraArgs = []string{"--v=4", "--master=x"}
	args := func(binary string) []string {
		a := adopter{binary: binary, adoption: &adoption.Adoption{Remote: fleet.Remote{Image: "ccmadm:v1"}}}
		got, err := a.rehearsalArgs(host, resolved, said)
		check(t, err)
		return got
	}
	name := regexp.MustCompile(`^--cluster-name=cluster-[0-9a-f]{10}$`)
	got := args("./ccm")
	i := slices.IndexFunc(got, name.MatchString)
	if i < 0 {
		t.Fatalf("no name that is derived from the CA in %q", got)
	}
	want := []string{
		"--binary=./ccm", "--kubeconfig=/etc/kubernetes/admin.conf", "--provider=aws", "--cloud-config=/etc/cloud.conf", got[i],
		"--credential=a=/etc/a", "--credential=b=env:B", "--arg=--v=4",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	said.ControllerManager.Version, resolved.ClusterName = "v7", "ber1"
	want = append([]string{"--image-tag=v7", "--image-repository=registry.local/k8s", "--node-image=ccmadm:v1"}, want[1:]...)
	want[slices.Index(want, got[i])] = "--cluster-name=ber1"
	if got := args(""); !slices.Equal(got, want) {
		t.Errorf("in a pod: got %q, want %q", got, want)
	}
}

// The table of a rehearsal is no JSON: it does not go where adopt writes its own.
func TestRehearsalStreams(t *testing.T) {
	var out, messages bytes.Buffer
	for format, want := range map[string]*bytes.Buffer{"text": &out, "json": &messages, "yaml": &messages} {
		a := adopter{options: workflow.Inputs{Output: format}}
		if got := a.rehearsalStreams(workflow.Streams{Out: &out, Err: &messages}); got.Out != want {
			t.Errorf("-o %s: the table goes elsewhere", format)
		}
	}
}
