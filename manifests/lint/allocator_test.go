package lint_test

import (
	"strings"
	"testing"
)

// TestCheck_Allocators: k8s.io/cloud-provider reads --allocate-node-cidrs and does not go by it.
func TestCheck_Allocators(t *testing.T) {
	for program, want := range map[string]string{
		"hcloud": "B17:30 fix", // Hetzner's manifest has the flag
		"gce":    "F6:39",
	} {
		input := strings.NewReplacer("--cloud-provider=acme", "--cloud-provider="+program, "--leader-elect=true", "--allocate-node-cidrs=true").Replace(good)
		findings, err := parse(t, input).Check()
		if err != nil {
			t.Fatal(err)
		}
		if got := summary(findings); got != want {
			t.Errorf("%s: found %q, want %q", program, got, want)
		}
	}
}
