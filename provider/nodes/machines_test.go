package nodes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/config"
)

// A provider ID on its way to a Node is forgotten with the Node, also where another Node has its name.
func TestMachines_PruneForgetsClaims(t *testing.T) {
	gone, again, there := joins(shows("w1", uuidA)), joins(shows("w2", uuidC)), joins(shows("w3", ""))
	i, _ := withInventory(t, listed)
	for id, node := range map[string]*corev1.Node{"onprem://ber1/r1": gone, "onprem://ber1/r2": again, "onprem://ber1/r3": there} {
		if err := i.machines.take(id, &config.Machine{ID: id}, node, indexed(t, nil)); err != nil {
			t.Fatal(err)
		}
	}
	other := again.DeepCopy()
	other.UID = "other"
	i.machines.prune(indexed(t, []*corev1.Node{other, there}))
	if diff := cmp.Diff(map[string]claim{"onprem://ber1/r3": {"w3", there.UID}}, i.machines.claims, cmp.AllowUnexported(claim{})); diff != "" {
		t.Errorf("claims, -want +got:\n%s", diff)
	}
}
