package phases

import (
	"errors"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
)

func TestRefuseContradictions(t *testing.T) {
	rec := &state.Record{Configuration: config.CloudConfiguration{Provider: "onprem", Mode: config.ModeStaticPod, ClusterName: "a"}}
	for _, tc := range []struct {
		name    string
		flags   config.CloudConfiguration
		wantErr string
	}{
		{name: "nothing said"},
		{name: "the same", flags: config.CloudConfiguration{Provider: "onprem", Mode: config.ModeStaticPod, ClusterName: "a"}},
		{name: "Auto is no contradiction", flags: config.CloudConfiguration{Mode: config.ModeAuto}},
		{name: "the node IP is the machine's own", flags: config.CloudConfiguration{NodeIP: "Default"}},
		{
			name: "another profile", flags: config.CloudConfiguration{Profile: "contradiction_test.go"},
			wantErr: "join with contradiction_test.go: it is not the profile of the cluster's record, whose provider is onprem",
		},
		{
			name: "another provider", flags: config.CloudConfiguration{Provider: "other"},
			wantErr: `join with provider "other": the cluster's record says "onprem"`,
		},
		{name: "another mode", flags: config.CloudConfiguration{Mode: config.ModeManual}, wantErr: "mode"},
		{
			name: "another release", flags: config.CloudConfiguration{ControllerManager: config.ControllerManager{Version: "v2"}},
			wantErr: `join with controllerManager.version "v2": the cluster's record says ""`,
		},
		{
			name: "BGP where machines answer ARP", flags: phasestest.Announced("").Flags,
			wantErr: `bgp "{localASN:64512,peers:[{address:192.0.2.1,asn:64500}]}": the cluster's record says ""`,
		},
	} {
		err := record.RefuseContradictions(record.JoinContradicted(), tc.flags, rec)
		if (err == nil) != (tc.wantErr == "") || (err != nil && !strings.Contains(err.Error(), tc.wantErr)) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.wantErr)
		}
		var known *finding.Error
		if err != nil && (!errors.As(err, &known) || known.Code != finding.ExitRefused) {
			t.Errorf("%s: exit code is not %d", tc.name, finding.ExitRefused)
		}
	}
}
