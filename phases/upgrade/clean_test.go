package upgrade

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/manifests/edit"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
)

// What a plan says that upgrade apply removes from a component's configuration is removed: gates that are gone, and gates
// that are locked to another value. Those with the value that they are locked to stay.
func TestDropGates(t *testing.T) {
	const text = "kind: KubeletConfiguration\nfeatureGates:\n  SidecarContainers: true\n  PLEGOnDemandRelist: false\n" +
		"  HostnameOverride: true\n  NoSuchThing: false\n"
	docs, err := edit.Split("kubelet-config", text)
	if err != nil || len(docs) != 1 || docs[0].Parse() != nil {
		t.Fatal(err)
	}
	removed, err := dropGates(&Upgrade{target: version.MustParseSemantic("v1.37.2")}, planner.Kubelet, docs[0])
	want := []string{"featureGates.SidecarContainers", "featureGates.PLEGOnDemandRelist"}
	if err != nil || !slices.Equal(removed, want) {
		t.Errorf("removed %q, %v; want %q", removed, err, want)
	}
	const left = "kind: KubeletConfiguration\nfeatureGates:\n  HostnameOverride: true\n  NoSuchThing: false\n"
	if docs[0].Text != left {
		t.Errorf("left\n%s", docs[0].Text)
	}
}

// What stays of an argument is as it was written, and a gate of another program is not judged.
func TestWithoutRefused(t *testing.T) {
	for value, want := range map[string]string{
		"kube:SidecarContainers=true,other:X=true":       "other:X=true",
		"SidecarContainers=true":                         "",
		"kube:HostnameOverride=true,SidecarContainers=1": "kube:HostnameOverride=true",
		"other:X=true": "other:X=true",
	} {
		use := planner.Use{Component: planner.APIServer, Name: "feature-gates", Value: value}
		u := &Upgrade{target: version.MustParseSemantic("v1.37.2")}
		kept, gone := u.withoutRefused(use)
		if kept != want || (len(gone) == 1) != strings.Contains(value, "Sidecar") {
			t.Errorf("%s: kept %q, gone %q", value, kept, gone)
		}
	}
}

// Names of controllers that the target does not know go, and the others stay.
func TestWithoutRefused_Controllers(t *testing.T) {
	for _, tt := range []struct{ target, value, want string }{
		{"v1.37.2", "*,-service,-node-route-controller,bootstrapsigner", "*,bootstrapsigner"},
		{"v1.37.2", "*,-node-ipam-controller", "*,-node-ipam-controller"},
		{"v1.36.3", "*,-service", "*,-service"},
	} {
		u := &Upgrade{target: version.MustParseSemantic(tt.target)}
		kept, gone := u.withoutRefused(planner.Use{Component: planner.ControllerManager, Name: "controllers", Value: tt.value})
		if kept != tt.want || (len(gone) > 0) != (kept != tt.value) {
			t.Errorf("%s: of %s kept %q, gone %q, want %q", tt.target, tt.value, kept, gone, tt.want)
		}
	}
}
