package templates

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnpublished(t *testing.T) {
	for version, want := range map[string]bool{
		"dev": true, "v0.1.0-3-g15514741": true, "v0.1.0-3-g15514741-dirty": true, "v0.1.0-dirty": true, "15514741": true,
		"v0.1.0": false, "v0.1.0-rc.1": false, "v1.2.3-beta-2": false, "v10.0.0": false, "test": false, "": false,
	} {
		if got := Unpublished(version); got != want {
			t.Errorf("Unpublished(%q) = %v, want %v", version, got, want)
		}
	}
}

func TestReleasedImages(t *testing.T) {
	ccm := ReleasedImage{"ghcr.io/ccmadm/cloud-controller-manager:dev", "controllerManager.image"}
	agent := ReleasedImage{"ghcr.io/ccmadm/node-agent:dev", "nodeAgent.image"}
	for _, tt := range []struct {
		name, provider string
		values         Values
		want           []ReleasedImage
	}{
		{name: "the manager", provider: "onprem", want: []ReleasedImage{ccm}},
		{name: "the agent, too", provider: "onprem", values: Values{NodeAgent: true}, want: []ReleasedImage{ccm, agent}},
		{name: "an image that the user names", provider: "onprem", values: Values{Image: "example.com/ccm:1", NodeAgent: true}, want: []ReleasedImage{agent}},
		{name: "an agent that the user names", provider: "onprem", values: Values{NodeAgent: true, NodeAgentImage: "example.com/a:1"}, want: []ReleasedImage{ccm}},
		{name: "a tag that the user names", provider: "onprem", values: Values{ImageTag: "v1", NodeAgent: true}},
		{name: "a mirror", provider: "onprem", values: Values{ImageRepository: "registry.example/k8s", NodeAgent: true}},
		{name: "a vendor's", provider: "aws", values: Values{KubernetesVersion: "1.36"}},
		{
			name: "the approver beside a vendor's", provider: "aws",
			values: Values{KubernetesVersion: "1.36", ServingCertificates: true}, want: []ReleasedImage{{Ref: ccm.Ref}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Load(tt.provider)
			if err != nil {
				t.Fatal(err)
			}
			tt.values.Version = "dev"
			got, err := p.ReleasedImages(tt.values)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
