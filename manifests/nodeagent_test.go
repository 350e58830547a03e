package manifests

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/templates"
)

// Whoever has the provider may write pools and peers, with the agent or without.
func TestNodeAgent_DefinitionsAlways(t *testing.T) {
	list, err := NodeAgent(onprem(t), values(templates.StaticPod))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range list {
		names = append(names, o.GetKind()+"/"+o.GetName())
	}
	want := []string{
		"CustomResourceDefinition/addresspools.ccmadm.dev", "CustomResourceDefinition/bgppeers.ccmadm.dev",
		"CustomResourceDefinition/nodeagents.ccmadm.dev",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestNodeAgent_Refused(t *testing.T) {
	for _, tt := range []struct {
		name    string
		profile func(*testing.T) *templates.Profile
		change  func(*templates.Values)
		wantErr string
	}{
		{
			name: "a provider that has none", profile: foreign,
			change:  func(*templates.Values) {},
			wantErr: "has none",
		},
		{
			name: "an endpoint without scheme", profile: onprem,
			change:  func(v *templates.Values) { v.Endpoint = "198.18.0.10:6443" },
			wantErr: "want https://host:port",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := values(templates.StaticPod)
			v.NodeAgent = true
			tt.change(&v)
			if _, err := NodeAgent(tt.profile(t), v); err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
	if _, err := HeartbeatSecret([]byte("short")); err == nil {
		t.Error("a key of five bytes is taken")
	}
}
