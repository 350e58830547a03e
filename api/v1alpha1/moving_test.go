package v1alpha1

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseMoveTo(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("192.0.2.1=a/b,", maxMoves+1), ",")
	for _, tt := range []struct{ text, want, problem string }{
		{"", "[]", ""},
		{" ", "[]", ""},
		{"192.0.2.50=gateway/web", "[192.0.2.50=gateway/web]", ""},
		{"192.0.2.50=gateway/web, 2001:DB8:0::50=gateway/web", "[192.0.2.50=gateway/web 2001:db8::50=gateway/web]", ""},
		{"::ffff:192.0.2.50=gateway/web", "[192.0.2.50=gateway/web]", ""},
		{"gateway/web", "", "has not the form ADDRESS=NAMESPACE/NAME"},
		{"192.0.2.50=web", "", "has not the form"},
		{"192.0.2.50=gateway/web,", "", "has not the form"},
		{"192.0.2.300=gateway/web", "", `"192.0.2.300" is no address`},
		{"fe80::1%eth0=gateway/web", "", "is no address"},
		{"192.0.2.50=*/web", "", `"*" is no name of a namespace`},
		{"192.0.2.50=gateway/*", "", `"*" is no name of a Service`},
		{"192.0.2.50=gateway/a/b", "", "is no name of a Service"},
		{"192.0.2.50=a/b,192.0.2.50=c/d", "", "192.0.2.50 has two entries"},
		{many, "", "at most 8 are read"},
		{strings.Repeat("x", maxMoveBytes+1), "", "bytes"},
	} {
		got, err := ParseMoveTo(tt.text)
		switch {
		case tt.problem == "" && (err != nil || fmt.Sprint(got) != tt.want):
			t.Errorf("%q: %v, %v, want %s", tt.text, got, err, tt.want)
		case tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem) || got != nil):
			t.Errorf("%q: %v, %v, want %q", tt.text, got, err, tt.problem)
		}
	}
}
