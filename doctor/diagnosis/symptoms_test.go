package diagnosis

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
)

// The texts of docs/troubleshooting.md about a manager's log are what detectors find there.
func TestSymptoms_FindWhatTheDocumentationSays(t *testing.T) {
	documented := map[finding.ID]bool{}
	for _, s := range finding.Symptoms() {
		if !strings.Contains(s.Where, "log") {
			continue
		}
		for _, mine := range symptoms() {
			if mine.id == s.IDs[0] && mine.pattern.MatchString(s.Text) && (mine.unless == nil || !mine.unless.MatchString(s.Text)) {
				documented[mine.id] = true
			}
		}
	}
	for _, mine := range symptoms() {
		if !documented[mine.id] && mine.id != finding.CloudNotFound { // it stands second: the same text as C3
			t.Errorf("%s: no documented line of a log matches %s", mine.id, mine.pattern)
		}
	}
}
