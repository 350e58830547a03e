package e2e

import "testing"

// TestTablesMetalLBOutcome: each of MetalLB's tests has one row, in the run of its family.
func TestTablesMetalLBOutcome(t *testing.T) {
	for _, tt := range []struct{ name, status, family, want string }{
		{"L2 type=Loadbalancer should work for ExternalTrafficPolicy=Local", "passed", "dual", "passed"},
		{"L2 type=Loadbalancer should work for ExternalTrafficPolicy=Local", "skipped", "ipv6", ""},
		{"BGP A service of protocol load balancer should work with ETP=local IPV6", "skipped", "dual", ""},
		{"BGP A service of protocol load balancer should work with ETP=local IPV6", "failed", "ipv6", "failed"},
		{"Webhooks For Community Should reject Community duplications", "skipped", "dual", "does not apply"},
		{"L2 metrics should be exposed by the controller IPV6 - Checking service", "skipped", "ipv6", "does not apply"},
		{"L2-interface selector Interface Selector Specify not existing interfaces", "skipped", "dual", "left out"},
	} {
		got, why := metallbOutcome(tt.name, tt.status, tt.family)
		if got != tt.want || (got == "does not apply" || got == "left out") != (why != "") {
			t.Errorf("%s, %s, %s: got %q because of %q, want %q", tt.name, tt.status, tt.family, got, why, tt.want)
		}
	}
}
