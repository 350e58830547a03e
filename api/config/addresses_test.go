package config

import (
	"strings"
	"testing"
)

func TestParseAddresses(t *testing.T) {
	for _, tc := range []struct{ list, wantErr string }{
		{"10.0.0.1", ""},
		{"10.0.0.1,fd00::1", ""},
		{"fd00::1,10.0.0.1", ""},
		{"10.0.0.1,10.0.0.2", "one of each family"},
		{"10.0.0.1,fd00::1,10.0.0.2", "one of each family"},
		{"host", "want Auto"},
		{"", "want Auto"},
	} {
		_, err := ParseAddresses(tc.list)
		if (err == nil) != (tc.wantErr == "") || (err != nil && !strings.Contains(err.Error(), tc.wantErr)) {
			t.Errorf("parse %q: got %v, want %q", tc.list, err, tc.wantErr)
		}
	}
}
