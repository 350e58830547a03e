package machines

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/provider/inventory"
	"github.com/ccmadm/ccmadm/provider/nodes"
)

func node(name, providerID, uuid string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: "ber-a"}},
		Spec:       corev1.NodeSpec{ProviderID: providerID},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{SystemUUID: uuid},
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0.2"}, {
				Type:    corev1.NodeHostName,
				Address: name,
			}},
		},
	}
}

// planFor is what the document would do to Nodes.
func planFor(t *testing.T, document string, all ...corev1.Node) *nodes.Plan {
	t.Helper()
	plan, err := nodes.NewPlan(t.Context(), []byte(document), nodes.Snapshot{Nodes: all, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

const (
	head   = "apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {site: ber1}\n"
	listed = head + `machines:
- {id: r1, zone: ber-b, match: {systemUUID: 4c4c4544-0001-4000-8000-000000000001}}
- {id: r2, hostname: w2, state: decommissioned}
- {id: r3, hostname: w3, state: decommissioned, protected: true}
- {id: r9}
`
)

func listedNodes() []corev1.Node {
	return []corev1.Node{
		node("w1", "onprem://ber1/r1", "4c4c4544-0001-4000-8000-000000000001"), node("w2", "onprem://ber1/r2", ""),
		node("w3", "onprem://ber1/r3", ""), node("w4", "onprem://ber1/node-w4", ""), node("k", "kwok://k", ""),
	}
}

// hanging takes each request, and never answers.
type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A command ends in time where the API server does not answer.
func TestHangingServer(t *testing.T) {
	for name, ask := range map[string]func(context.Context, kubernetes.Interface) error{
		"list and export": func(ctx context.Context, client kubernetes.Interface) error {
			_, err := readNodes(ctx, client)
			return err
		},
		"diff": func(ctx context.Context, client kubernetes.Interface) error {
			_, err := planOf(ctx, client, "machines.yaml", []byte(listed))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api.invalid", Transport: hanging{}, QPS: -1})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // so that it ends at all
				defer cancel()
				began := time.Now()
				if err := ask(ctx, client); err == nil {
					t.Error("there is no error")
				}
				if took := time.Since(began); took != observer.Timeout {
					t.Errorf("took %s, want %s", took, observer.Timeout)
				}
			})
		})
	}
}

func TestShowMachines(t *testing.T) {
	var out bytes.Buffer
	if err := showMachines(&out, planFor(t, listed, listedNodes()...)); err != nil {
		t.Fatal(err)
	}
	want := `NODE  MACHINE  BY          STATE           NOTE
k     -        -           -               Node of another provider: never changed
w1    r1       providerID  active          -
w2    r2       providerID  decommissioned  delete: would be announced, and done in 5m0s at the earliest
w3    r3       providerID  decommissioned  delete: kept: the inventory protects it
w4    -        -           -               not listed: adopted
-     r9       -           active          no Node
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}

	// A Node that contradicts what is listed under its name is an error, never a guess.
	contradicted := head + "machines:\n- {id: r1, hostname: w1, match: {systemUUID: " +
		"4c4c4544-0001-4000-8000-000000000001}}\n"
	err := unclear(planFor(t, contradicted, node("w1", "", "4c4c4544-0002-4000-8000-000000000002")))
	var known *finding.Error
	if !errors.As(err, &known) || !errors.Is(err, inventory.ErrContradiction) || known.Hint == "" {
		t.Errorf("got %v, want a contradiction with a hint", err)
	}
}

func TestShowPlan(t *testing.T) {
	plan := planFor(t, listed, listedNodes()...)
	var out bytes.Buffer
	if err := showPlan(&out, output.Named(output.Text), plan); err != nil {
		t.Fatal(err)
	}
	want := `NODE  MACHINE  ACTION     DETAIL
k     -        unchanged  Node of another provider: never changed
w1    r1       update     label topology.kubernetes.io/zone: ber-a -> ber-b
w2    r2       delete     would be announced, and done in 5m0s at the earliest
w3    r3       delete     kept: the inventory protects it
w4    -        unchanged  not listed: adopted
-     r9       no Node    active
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	out.Reset()
	if err := showPlan(&out, output.Named(output.JSON), plan); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"node":"w2","machine":"r2","by":"providerID","state":"decommissioned","action":"delete",`, `"earliest":"5m0s"`,
		`"changes":[{"field":"label topology.kubernetes.io/zone","old":"ber-a","new":"ber-b"}]`,
		`"reason":"Protected"`, `"machinesWithoutNode":[{"id":"r9","state":"active"}]`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in\n%s", want, out.String())
		}
	}
}

func TestExportNodes_IsAnInventory(t *testing.T) {
	data, err := yaml.Marshal(exportNodes("ber1", []corev1.Node{node("w1", "onprem://ber1/abc",
		"4c4c4544-0001-4000-8000-000000000001"), node("w2", "", "")}))
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
