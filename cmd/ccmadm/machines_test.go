package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/phases"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

func node(name, providerID, uuid string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: "ber-a"}},
		Spec:       corev1.NodeSpec{ProviderID: providerID},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: uuid}},
	}
}

func TestShowMachines(t *testing.T) {
	const head = "apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {site: ber1}\n"
	inv, err := inventory.Decode([]byte(head + `machines:
- {id: r1, match: {systemUUID: 4c4c4544-0001-4000-8000-000000000001}}
- {id: r2, hostname: w2, state: decommissioned}
- {id: r3, hostname: w3, state: decommissioned, protected: true}
- {id: r9}
`))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = showMachines(&out, inv, []corev1.Node{
		node("w1", "", "4c4c4544-0001-4000-8000-000000000001"), node("w2", "onprem://ber1/r2", ""), node("w3", "", ""), node("w4", "", ""), node("k", "kwok://k", ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `NODE  MACHINE  BY          STATE           NOTE
w1    r1       systemUUID  active          
w2    r2       providerID  decommissioned  may be deleted
w3    r3       name        decommissioned  protected
w4    -        -           -               not listed: adopted
k     -        -           -               another provider's: never touched
-     r9       -           active          no Node
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}

	// A Node that contradicts what is listed under its name is an error, never a guess.
	inv, err = inventory.Decode([]byte(head + "machines:\n- {id: r1, hostname: w1, match: {systemUUID: 4c4c4544-0001-4000-8000-000000000001}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	err = showMachines(&out, inv, []corev1.Node{node("w1", "", "4c4c4544-0002-4000-8000-000000000002")})
	var known *phases.Error
	if !errors.As(err, &known) || !errors.Is(err, inventory.ErrContradiction) || known.Hint == "" {
		t.Errorf("got %v, want a contradiction with a hint", err)
	}
}

func TestExportNodes_IsAnInventory(t *testing.T) {
	data, err := yaml.Marshal(exportNodes("ber1", []corev1.Node{node("w1", "onprem://ber1/abc", "4c4c4544-0001-4000-8000-000000000001"), node("w2", "", "")}))
	if err != nil {
		t.Fatal(err)
	}
	inv, err := inventory.Decode(data)
	if err != nil {
		t.Fatalf("what export prints is not valid: %v\n%s", err, data)
	}
	m, _, err := inv.Match(inventory.Facts{Name: "other", SystemUUID: "4c4c4544-0001-4000-8000-000000000001"})
	if err != nil || m == nil || m.ID != "abc" || m.Zone != "ber-a" {
		t.Errorf("the exported machine is not found again: %+v, %v\n%s", m, err, data)
	}
	if !strings.Contains(string(data), "hostname: w2") {
		t.Errorf("w2 is missing:\n%s", data)
	}
}
