package diagnosis

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/templates"
)

// The texts of docs/troubleshooting.md about a manager's log are what detectors find there.
func TestSymptoms_FindWhatTheDocumentationSays(t *testing.T) {
	documented := map[finding.ID]bool{}
	for _, s := range finding.Symptoms() {
		if !strings.Contains(s.Where, "log") {
			continue
		}
		for _, mine := range symptoms() {
			if mine.id == s.IDs[0] && mine.says(s.Text) {
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

// TestSymptoms_WhoseAddress: a cloud at port 443 that does not answer is not the API server.
func TestSymptoms_WhoseAddress(t *testing.T) {
	const sync = "E1122 error syncing 'w1': failed to get instance metadata for node w1: "
	const cloud, service = "W9(3) W10(1)", "C2(1)>W9(3)>W10(1)"
	for line, want := range map[string]string{
		`Post "https://vcenter.example.com:443/sdk": dial tcp 10.20.0.5:443: i/o timeout`:          cloud,
		`Post "https://10.20.0.5:443/sdk": dial tcp 10.20.0.5:443: i/o timeout`:                    cloud,
		`Post "https://10.20.0.5:443/v3/auth/tokens": dial tcp 10.20.0.5:443: i/o timeout`:         cloud,
		`Get "https://cloud.example.com:443/api/servers": dial tcp 10.20.0.5:443: i/o timeout`:     cloud,
		`Get "https://10.96.0.1:443/api/v1/nodes/w1": dial tcp 10.96.0.1:443: i/o timeout`:         service,
		`Get "https://[fd00::1]:443/apis/x": dial tcp [fd00::1]:443: connect: no route to host`:    service,
		`Get "https://10.96.0.1:443/version": dial tcp 10.96.0.1:443: connect: connection refused`: service,
	} {
		if got := words(Diagnose(newSnapshot(templates.DaemonSet, 3, tainted, logged(sync+line)))); got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}
