package machine

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What a shell takes apart arrives as the same words, and what it would run is text.
func TestShellQuote(t *testing.T) {
	words := []string{"--node-ip=198.18.0.1,fd00::1", "a b", "$(touch x)", "it's", "", "a\nb;c", "*", "~", "{a,b}"}
	out, err := exec.Command("sh", "-c", `printf '%s\0' `+ShellQuote(words...)).Output()
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); err != nil || !slices.Equal(got, words) {
		t.Errorf("got %q, %v, want %q", got, err, words)
	}
}
