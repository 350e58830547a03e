package machine

import (
	"errors"
	"testing"
)

// A program that does not end what it says is ended, and is no answer.
func TestMachine_Output_TooMuch(t *testing.T) {
	for _, line := range []string{"cat /dev/zero", "cat /dev/zero >&2", "head -c 16777217 /dev/zero"} {
		out, err := At("/").Output(t.Context(), "sh", "-c", line)
		if !errors.Is(err, errTooMuch) || len(out) > maxOutput {
			t.Errorf("%s: %d bytes, %v", line, len(out), err)
		}
	}
	if out, err := At("/").Output(t.Context(), "head", "-c", "16777216", "/dev/zero"); err != nil || len(out) != maxOutput {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}
