package manager

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// theirs is what crictl prints of a machine that has another image, and this one.
func theirs(image string) string {
	return `{"images": [{"id": "sha256:89e0", "repoTags": ["registry.k8s.io/pause:3.10.2"], "repoDigests": []},
		{"id": "sha256:6b86", "repoTags": ["` + image + `"], "repoDigests": []}]}`
}

func TestCheckImages(t *testing.T) {
	const image = "ghcr.io/ccmadm/cloud-controller-manager:v0.1.0-3-g15514741"
	const crictl, ctr = "crictl images --output json", "ctr --namespace k8s.io images list name==" + image
	const released = "ghcr.io/ccmadm/cloud-controller-manager:v0.1.0"
	const load, another = "`ccmadm images load FILE` imports an archive", " in the CloudConfiguration names another image"
	absent := errors.New("executable file not found in $PATH")
	for _, tt := range []struct {
		name     string
		version  string
		document string
		in       workflow.Inputs
		answers  map[string]string
		fails    map[string]error
		wantErr  string
		wantHint string
		wantOut  string
	}{
		{name: "a release is pulled", version: "v0.1.0", wantOut: "pulling image " + released},
		{
			name: "a release cannot be pulled", version: "v0.1.0", fails: map[string]error{"crictl pull": errors.New("exit status 1")},
			wantErr:  "image " + released + " is not on this machine and cannot be pulled",
			wantHint: load + "; --image-repository names a mirror; controllerManager.image" + another,
		},
		{name: "a release was imported", version: "v0.1.0", answers: map[string]string{crictl: theirs(released)}},
		{
			name: "a release, without crictl", version: "v0.1.0", fails: map[string]error{"crictl": absent},
			wantOut: "whether image " + released + " can be pulled is unknown",
		},
		{
			name: "no registry and no machine has it", wantErr: "this build has no published image: ccmadm v0.1.0-3-g15514741 is no release, and " + image,
			wantHint: load + "; --image-repository names a mirror; controllerManager.image" + another + "; or use a release of ccmadm",
		},
		{name: "it was imported", answers: map[string]string{crictl: theirs(image)}},
		{name: "it was imported, without crictl", answers: map[string]string{ctr: "REF TYPE DIGEST\n" + image + " application/vnd.oci.image.index.v1+json sha256:6b86f7d7 9.3 MiB linux/amd64 -\n"}, fails: map[string]error{"crictl": absent}},
		{name: "it was not, without crictl", fails: map[string]error{"crictl": absent}, wantErr: "was not imported on this machine"},
		{
			name: "a runtime that cannot be asked", fails: map[string]error{"crictl": absent, "ctr": absent},
			wantOut: "whether this machine has image " + image + " is unknown",
		},
		{name: "an image of the user's", document: "controllerManager: {image: registry.example/ccm:1}\n"},
		{name: "pods of another machine", in: workflow.Inputs{Existing: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, runner := machinetest.New(t)
			maps.Copy(runner.Answers, tt.answers)
			maps.Copy(runner.Fails, tt.fails)
			config := phasestest.InitConfig + "---\n" + phasestest.CloudDocument + "provider: onprem\n" + tt.document
			r, out := phasestest.Run{Config: config, Inputs: tt.in}.Must(t, m)
			r.Version = "v0.1.0-3-g15514741"
			if tt.version != "" {
				r.Version = tt.version
			}
			err := CheckImages(t.Context(), r)
			phasestest.WantError(t, err, tt.wantErr, finding.ExitError)
			if known := new(finding.Error); tt.wantHint != "" && (!errors.As(err, &known) || known.Hint != tt.wantHint) {
				t.Errorf("got the hint %q, want %q", known.Hint, tt.wantHint)
			}
			if !strings.Contains(out.String(), tt.wantOut) {
				t.Errorf("got %q, want %q", out, tt.wantOut)
			}
		})
	}
}

// apply and adopt have no flag for a mirror, and the approver's image has no field.
func TestOtherWays_ExistingCluster(t *testing.T) {
	r := workflow.NewRun(nil, workflow.Inputs{Existing: true}, workflow.Streams{}, "v0.1.0")
	const load = "`ccmadm images load FILE` imports an archive"
	for field, want := range map[string]string{
		"": load, "nodeAgent.image": load + "; nodeAgent.image in the CloudConfiguration names another image",
	} {
		if got := otherWays(r, templates.ReleasedImage{Field: field}); got != want {
			t.Errorf("%q: got %q, want %q", field, got, want)
		}
	}
}
