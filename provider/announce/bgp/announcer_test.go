package bgp

import (
	"net/netip"
	"testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// A Node whose kube-proxy is sick, or that has just booted, gives its paths to others that announce them, and keeps those that none does.
func TestView_PathsOfADrainingNode(t *testing.T) {
	agent := func(state string, draining bool) *v1alpha1.NodeAgent {
		return &v1alpha1.NodeAgent{Status: v1alpha1.NodeAgentStatus{
			Draining: draining, Sessions: []v1alpha1.BGPSession{{Peer: "tor1", State: state}},
		}}
	}
	for _, tt := range []struct {
		name   string
		other  *v1alpha1.NodeAgent
		silent []string
		keeps  bool
	}{
		{name: "another announces it", other: agent(stateEstablished, false)},
		{name: "another is sick, too", other: agent(stateEstablished, true), keeps: true},
		{name: "another has no router", other: agent(stateIdle, false), keeps: true},
		{name: "another is silent", other: agent(stateEstablished, false), silent: []string{"w2"}, keeps: true},
		{name: "another has no agent", keeps: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := &announce.View{
				Node: "w1", Draining: true, Silent: tt.silent,
				Agents: map[string]*v1alpha1.NodeAgent{"w1": agent(stateEstablished, false)},
				Claims: []announce.Claim{{
					Address: netip.MustParseAddr("192.0.2.50"), Level: v1alpha1.LevelBGP, Candidates: []string{"w1", "w2"},
				}},
			}
			if tt.other != nil {
				v.Agents["w2"] = tt.other
			}
			if got := pathsOf(v); (len(got) == 1) != tt.keeps {
				t.Errorf("got paths %v, want that it keeps the path: %t", got, tt.keeps)
			}
			v.Draining, v.Starting = false, true
			if got := pathsOf(v); (len(got) == 1) != tt.keeps {
				t.Errorf("after a boot: got paths %v, want that it announces the path: %t", got, tt.keeps)
			}
			v.Starting = false
			if got := pathsOf(v); len(got) != 1 {
				t.Errorf("well again: got paths %v, want one", got)
			}
		})
	}
}
