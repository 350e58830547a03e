package planner

import (
	"strings"
	"testing"
)

func TestOtherReleases(t *testing.T) {
	for _, tt := range []struct {
		name, second string
		want         string
	}{
		{name: "one release", second: "v0.2.0"},
		{name: "nothing is known"},
		{name: "two", second: "v0.1.0\x1b[2J", want: "ccmadm: v0.2.0 on cp1, cp3; v0.1.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			if f := otherReleases(map[string]string{"cp1": "v0.2.0", "m2": tt.second, "cp3": "v0.2.0"}); f != nil {
				got = f.Message
			}
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) || strings.Contains(got, "\x1b") {
				t.Errorf("it says %q, want %q", got, tt.want)
			}
		})
	}
}
