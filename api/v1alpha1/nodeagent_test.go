package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// What the CustomResourceDefinitions of earlier releases require is written, also where it is nothing: they may be older than the agents.
func TestNodeAgentStatus_RequiredByEarlierReleases(t *testing.T) {
	var written struct {
		Announced, Routed *int
		Sessions          []struct{ Advertised *int }
	}
	data, err := json.Marshal(v1alpha1.NodeAgentStatus{Sessions: []v1alpha1.BGPSession{{Peer: "tor"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &written); err != nil {
		t.Fatal(err)
	}
	if written.Announced == nil || written.Routed == nil || written.Sessions[0].Advertised == nil {
		t.Errorf("a field is left out that is required: %s", data)
	}
}
