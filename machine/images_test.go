package machine_test

import (
	"testing"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

func TestCompleteReference(t *testing.T) {
	const digest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for ref, want := range map[string]string{
		"calico/node:v3.31.0":           "docker.io/calico/node:v3.31.0",
		"nginx":                         "docker.io/library/nginx:latest",
		"nginx:1" + digest:              "docker.io/library/nginx" + digest,
		"docker.io/nginx:1":             "docker.io/library/nginx:1",
		"index.docker.io/library/nginx": "docker.io/library/nginx:latest",
		"localhost/own:v1":              "localhost/own:v1",
		"localhost:5000/own":            "localhost:5000/own:latest",
		"quay.io/x/y" + digest:          "quay.io/x/y" + digest,
		"registry.k8s.io/pause:3.10":    "registry.k8s.io/pause:3.10",
		"Calico/node:v3":                "",
		"":                              "",
	} {
		if got, err := machine.CompleteReference(ref); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: got %q and %v, want %q", ref, got, err, want)
		}
	}
}

// Container runtimes list complete references, whichever the image was pulled or imported by.
func TestHasImage(t *testing.T) {
	const digest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	m, runner := machinetest.New(t)
	runner.Answers["crictl images --output json"] = `{"images": [
		{"repoTags": ["docker.io/library/nginx:latest"], "repoDigests": ["docker.io/library/nginx` + digest + `"]},
		{"repoTags": ["ghcr.io/ccmadm/node-agent:v1"]}]}`
	for ref, want := range map[string]bool{
		"nginx": true, "docker.io/nginx:latest": true, "nginx:1" + digest: true, "ghcr.io/ccmadm/node-agent:v1": true,
		"nginx:1": false, "ghcr.io/ccmadm/node-agent": false,
	} {
		if has, err := m.HasImage(t.Context(), ref); err != nil || has != want {
			t.Errorf("%s: got %t and %v, want %t", ref, has, err, want)
		}
	}
	if _, err := m.HasImage(t.Context(), "NGINX"); err == nil {
		t.Error("what is no reference is looked up")
	}
}
