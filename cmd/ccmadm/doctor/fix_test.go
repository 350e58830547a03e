package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
)

// TestDoctorFix_Left: a cluster of which all findings are fixed may have others that were not seen.
func TestDoctorFix_Left(t *testing.T) {
	f := finding.ShutdownStays.New("Node/w1", "it is Ready")
	fixed := []diagnosis.Fix{{ID: f.ID, Object: f.Object}}
	for _, tt := range []struct {
		name    string
		notSeen []diagnosis.NotSeen
		fixes   []diagnosis.Fix
		want    string
	}{
		{"all is fixed", nil, fixed, ""},
		{"something is left", []diagnosis.NotSeen{{What: "nodes"}}, nil, usage.ErrFound.Error()},
		{"all is fixed, and Nodes were not seen", []diagnosis.NotSeen{{What: "nodes"}}, fixed, "its nodes could not be read"},
	} {
		d := &diagnosis.Diagnosis{Causes: []diagnosis.Cause{{Finding: f, Objects: []string{f.Object}}}, NotSeen: tt.notSeen}
		if got := fmt.Sprint(left(d, tt.fixes)); tt.want == "" && got != "<nil>" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s, want %q", tt.name, got, tt.want)
		}
	}
}
