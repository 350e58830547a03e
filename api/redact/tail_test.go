package redact

import (
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	value := "passphrase: |\n" + strings.Repeat("  "+secret+"\n", 3)
	for _, tt := range []struct {
		log   string
		lines int
		want  string
	}{
		{"", 2, ""},
		{"a\nb\nc\n", 2, "b\nc\n"},
		{"a\nb\nc", 2, "b\nc"},
		{"a\n", 2, "a\n"},
		{"a\nb\n", 2, "a\nb\n"},
		{value, 2, "  " + Mark + "\n  " + Mark + "\n"},
	} {
		if got := Tail(tt.log, tt.lines); got != tt.want {
			t.Errorf("the last %d of %q are %q, want %q", tt.lines, tt.log, got, tt.want)
		}
	}
}
