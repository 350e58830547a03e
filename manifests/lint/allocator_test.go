package lint_test

import (
	"strings"
	"testing"
)

// TestCheck_Allocators: k8s.io/cloud-provider reads --allocate-node-cidrs and does not go by it; programs with a node-ipam-controller
// do where it runs.
func TestCheck_Allocators(t *testing.T) {
	for _, tt := range []struct{ provider, controllers, want string }{
		{"hcloud", "", "B17:30 fix"}, // Hetzner's manifest has the flag
		{"gce", "", "F6:39"},
		{"gce", "*,-node-ipam-controller", ""},
		{"gce", "*,-nodeipam", ""},
		{"gce", "cloud-node-controller", ""},
		{"gce", "*", "F6:39"},
		{"azure", "*,-node-ipam", ""},
		{"azure", "cloud-node-lifecycle-controller,node-ipam", "F6:39"},
		{"talos", "", ""}, // off by default
		{"talos", "*", ""},
		{"talos", "cloud-node,node-ipam-controller", "F6:39"},
		{"acme", "", "F6:39"}, // nothing is known of it
		{"acme", "cloud-node-controller", ""},
		{"gce", "-node-ipam-controller --controllers=*", ""},
		{"gce", "* --controllers=-service-lb-controller", "F6:39"},
		{"gce", "-cloud-node-lifecycle-controller --controllers=-service-lb-controller", ""},
	} {
		arguments := []string{"--allocate-node-cidrs=true"}
		if tt.controllers != "" {
			arguments = append(arguments, strings.Fields("--controllers="+tt.controllers)...)
		}
		findings, err := parse(t, strings.Replace(with(arguments...), "--cloud-provider=acme", "--cloud-provider="+tt.provider, 1)).Check()
		if err != nil {
			t.Fatal(err)
		}
		if got := summary(findings); got != tt.want {
			t.Errorf("%s with --controllers=%s: found %q, want %q", tt.provider, tt.controllers, got, tt.want)
		}
	}
}
