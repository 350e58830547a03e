package nodes

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// settled is an initialized Node of machine id, as the inventory of lists has it.
func settled(name, id string, status corev1.ConditionStatus) *corev1.Node {
	node := ready(withProviderID(shows(name, ""), "onprem://ber1/"+id), status)
	node.Labels = map[string]string{v1alpha1.MachineLabel: id}
	node.Status.Addresses = append(node.Status.Addresses[:1:1], corev1.NodeAddress{
		Type:    corev1.NodeHostName,
		Address: name,
	})
	return node
}

// fresh is a Node that has just registered.
func fresh(name string) *corev1.Node {
	node := withProviderID(settled(name, "", corev1.ConditionFalse), "")
	node.Annotations = nil
	node.Spec.Taints = []corev1.Taint{{
		Key:    cloudproviderapi.TaintExternalCloudProvider,
		Effect: corev1.TaintEffectNoSchedule,
	}}
	return node
}

func plan(t *testing.T, document string, nodes ...*corev1.Node) (*Plan, error) {
	t.Helper()
	config := config.OnPremConfiguration{Inventory: &config.InventorySource{}}
	config.Inventory.MaxLossPercent = 25 // two of nine
	config.Inventory.Default()
	s := Snapshot{Configuration: config, Now: time.Now(), LastGood: inventory.Saved{Document: lists(9)}}
	for _, n := range nodes {
		s.Nodes = append(s.Nodes, *n)
	}
	return NewPlan(t.Context(), []byte(document), s)
}

func TestNewPlan(t *testing.T) {
	moved := strings.Replace(string(lists(9)), "{id: m1,", "{id: m1, zone: b, labels: {disk: nvme}, taints: [{key: gpu, "+
		"effect: NoSchedule}], addresses: [{type: InternalIP, address: 198.18.0.2}, {type: ExternalIP, address: "+
		"198.18.9.2}],", 1)
	hold := strings.Replace(string(lists(9)), "machines:", "policy: {unknownNodes: hold, deletion: absence}\nmachines:", 1)
	named := strings.Replace(string(lists(9)), "{id: m1,", "{id: m1, hostname: new, zone: b, match: {macs: "+
		"['52:54:00:00:00:01']},", 1)
	silent, talking := corev1.ConditionUnknown, corev1.ConditionTrue
	controlPlane := settled("w2", "m2", silent)
	controlPlane.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	delay := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	for _, tt := range []struct {
		name     string
		document string
		nodes    []*corev1.Node
		want     NodePlan // of the first Node
	}{
		{
			name: "nothing", document: string(lists(9)), nodes: []*corev1.Node{settled("w1", "m1", talking)},
			want: NodePlan{Machine: "m1", By: "providerID", State: "active", Action: Unchanged},
		},
		{
			name: "another place", document: moved, nodes: []*corev1.Node{settled("w1", "m1", talking)},
			want: NodePlan{
				Machine: "m1", By: "providerID", State: "active", Action: Update,
				Changes: []Change{
					{"addresses", "Hostname=w1,InternalIP=198.18.0.2", "ExternalIP=198.18.9.2,Hostname=w1,InternalIP=198.18.0.2"},
					{"label disk", "", "nvme"},
					{"label topology.kubernetes.io/zone", "", "b"},
					{"taint", "", "gpu:NoSchedule"},
				},
			},
		},
		{
			name:     "another provider's, not yet initialized",
			document: string(lists(9)),
			nodes:    []*corev1.Node{joins(withProviderID(fresh("w1"), "kwok://w1"))},
			want:     NodePlan{Action: Initialize},
		},
		{
			name: "another provider's, not yet initialized, where unknown Nodes are held", document: hold,
			nodes: []*corev1.Node{joins(withProviderID(fresh("w1"), "kwok://w1"))},
			want:  NodePlan{Action: Stuck, Reason: "UnknownMachine", Message: "list one with match.providerIDs"},
		},
		{
			name: "a new Node", document: named, nodes: []*corev1.Node{fresh("new")},
			want: NodePlan{
				Machine: "m1", By: "name", State: "active", Action: Initialize,
				Changes: []Change{{"providerID", "", "onprem://ber1/m1"}, {"label topology.kubernetes.io/zone", "", "b"}},
			},
		},
		{
			name: "an unknown Node", document: hold, nodes: []*corev1.Node{fresh("new")},
			want: NodePlan{Action: Stuck, Reason: "UnknownMachine", Message: "no machine of the inventory matches this Node"},
		},
		{
			name: "an adopted Node", document: string(lists(9)), nodes: []*corev1.Node{settled("w1", "node-w1", talking)},
			want: NodePlan{Action: Unchanged, Message: "not listed: adopted"},
		},
		{
			name:     "a foreign Node",
			document: hold,
			nodes:    []*corev1.Node{withProviderID(settled("w1", "", talking), "kwok://w1")},
			want:     NodePlan{Action: Unchanged, Message: "Node of another provider: never changed"},
		},
		{
			name: "a taken machine", document: named, nodes: []*corev1.Node{fresh("new"), settled("w1", "m1", talking)},
			want: NodePlan{
				Machine: "m1", By: "name", State: "active", Action: Stuck, Reason: "MachineTaken",
				Message: "onprem://ber1/m1 is Node/w1, too",
			},
		},
		{
			name: "a machine that talks", document: string(lists(9, 1)), nodes: []*corev1.Node{settled("w1", "m1", talking)},
			want: NodePlan{
				Machine: "m1", By: "providerID", State: "decommissioned", Action: Delete, Reason: "StillTalking",
				Message: "its kubelet still posts status",
			},
		},
		{
			name: "a machine that is silent", document: string(lists(9, 1)), nodes: []*corev1.Node{settled("w1", "m1", silent)},
			want: NodePlan{
				Machine: "m1", By: "providerID", State: "decommissioned", Action: Delete,
				Earliest: delay(5 * time.Minute), Message: "in 5m0s at the earliest",
			},
		},
		{
			name: "a machine that is missing", document: hold, nodes: []*corev1.Node{settled("w1", "m9", silent)},
			want: NodePlan{Action: Delete, Earliest: delay(20 * time.Minute), Message: "in 20m0s at the earliest"},
		},
		{
			name: "a control plane", document: string(lists(9, 2)), nodes: []*corev1.Node{controlPlane},
			want: NodePlan{
				Machine: "m2", By: "providerID", State: "decommissioned", Action: Delete, Reason: "ControlPlane",
				Message: "it is a control plane",
			},
		},
		{
			name:     "too many",
			document: string(lists(9, 1, 2)),
			nodes:    []*corev1.Node{settled("w1", "m1", silent), settled("w2", "m2", silent)},
			want: NodePlan{
				Machine: "m1", By: "providerID", State: "decommissioned", Action: Delete,
				Reason: "TooManyAtOnce", Message: "maxPercent",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := plan(t, tt.document, tt.nodes...)
			if err != nil {
				t.Fatal(err)
			}
			got := p.Nodes[0]
			tt.want.Node = tt.nodes[0].Name
			if !strings.Contains(got.Message, tt.want.Message) {
				t.Errorf("got message %q, want %q", got.Message, tt.want.Message)
			}
			got.Message = tt.want.Message
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if p.Differs() == (got.Action == Unchanged) {
				t.Errorf("Differs() is %v for %s", p.Differs(), got.Action)
			}
		})
	}
}

// The budget lets Nodes go one after the other.
func TestNewPlan_Budget(t *testing.T) {
	document := strings.Replace(string(lists(9, 1, 2)), "machines:", "policy: {deletionBudget: {maxPercent: "+
		"100}}\nmachines:", 1)
	p, err := plan(t, document, settled("w1", "m1", corev1.ConditionUnknown), settled("w2", "m2", corev1.ConditionUnknown))
	if err != nil {
		t.Fatal(err)
	}
	if p.Nodes[0].Earliest.Duration != 5*time.Minute || p.Nodes[1].Earliest.Duration != 15*time.Minute {
		t.Errorf("got %v and %v, want five minutes and ten more", p.Nodes[0].Earliest, p.Nodes[1].Earliest)
	}
	if diff := cmp.Diff([]string{"m0", "m3", "m4", "m5", "m6", "m7", "m8"}, spare(p)); diff != "" {
		t.Errorf("machines without a Node (-want +got):\n%s", diff)
	}
}

func spare(p *Plan) []string {
	var ids []string
	for _, m := range p.Spare {
		ids = append(ids, m.ID)
	}
	return ids
}

// What the cloud-controller-manager would reject has no plan.
func TestNewPlan_Rejected(t *testing.T) {
	for document, want := range map[string]string{
		"":               "Malformed",
		string(lists(0)): "Empty",
		string(lists(4)): "LostMachines: 5 of 9",
		strings.Replace(string(lists(9)), "ber1", "ham1", 1): "OtherSite",
	} {
		if _, err := plan(t, document); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}
