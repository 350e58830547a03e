package diagnosis

import (
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/templates"
)

// A certificate that the kubelet renews is late by its own time, however short that is.
func TestDiagnose_CertificateLate(t *testing.T) {
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		whole, left time.Duration
		rotated     bool
		want        string
	}{
		"a year":                   {365 * day, 4 * day, true, ""},
		"a year, late":             {365 * day, 2 * day, true, "K6(1)"},
		"a year, renewed by hand":  {365 * day, 29 * day, false, "K6(1)"},
		"three days":               {3 * day, 8 * time.Hour, true, ""},
		"three days, late":         {3 * day, 6 * time.Hour, true, "K6(1)"},
		"an hour, just been given": {time.Hour, 55 * time.Minute, true, ""},
	} {
		s := newSnapshot(templates.StaticPod, 1)
		s.Host = &Host{Name: "cp1", Node: "cp1", Certificates: []HostCertificate{{
			File:  "/var/lib/kubelet/pki/kubelet-client-current.pem",
			Begin: taken.Add(tt.left - tt.whole), End: taken.Add(tt.left), Rotated: tt.rotated,
		}}}
		if got := words(Diagnose(s)); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}
