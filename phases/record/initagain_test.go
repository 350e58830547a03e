package record

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/phases/journal"
)

// The command that completes a run is the one that was typed, on its machine: what the journal calls a run is no command line.
func TestErrUnended(t *testing.T) {
	for _, tt := range []struct{ command, line, want string }{
		{"upgrade node v1.36.3", "ccmadm upgrade apply v1.36.3 --via=ssh", "on cp2: ccmadm upgrade apply v1.36.3 --via=ssh. "},
		{"leave (rollback 7)", "ccmadm rollback 7", "on cp2: ccmadm rollback 7. "},
		{"adopt", "", "on cp2: ccmadm adopt, with the flags of that run. "},
	} {
		err := errUnended(&journal.Run{ID: 3, Command: tt.command, Line: tt.line, Machine: "cp2"})
		if !strings.Contains(err.Hint, tt.want) || !strings.Contains(err.Hint, "ccmadm rollback 3 or ccmadm apply undoes it") || !strings.Contains(err.Error(), "run 3, ccmadm "+tt.command+" on cp2, is not finished") {
			t.Errorf("%s: got %v, hint %q, want %q", tt.command, err, err.Hint, tt.want)
		}
	}
}
