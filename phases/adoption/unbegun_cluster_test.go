package adoption

import (
	"errors"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/phasestest"
)

const lostRecord = "is in external mode, and the cluster has no record"

// wantHint looks for a refusal, and for what it says to do.
func wantHint(t *testing.T, err error, text, hint string) {
	t.Helper()
	phasestest.WantError(t, err, text, finding.ExitRefused)
	if known := new(finding.Error); !errors.As(err, &known) || !strings.Contains(known.Hint, hint) {
		t.Errorf("%v has no hint %q", err, hint)
	}
}
