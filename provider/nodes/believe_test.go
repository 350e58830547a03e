package nodes

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// joins is a Node that has just registered, with what its kubelet says.
func joins(node *corev1.Node) *corev1.Node {
	node.Spec.Taints = []corev1.Taint{{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule}}
	return node
}

func created(node *corev1.Node, minute int) *corev1.Node {
	node.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))
	return node
}

// What a kubelet says of itself is not believed without a line of the inventory that supports it.
func TestInstanceMetadata_Believes(t *testing.T) {
	const stranger = "7f7f4544-0042-3510-8052-b3c04f4b4e32"
	adopting := strings.Replace(listed, "hold", "adopt", 1)
	foreign := strings.Replace(listed, "- id: r2", "- {id: r3, match: {providerIDs: ['kwok://r3'], systemUUID: "+
		""+stranger+"}}\n- {id: r4, match: {providerIDs: ['kwok://r4']}}\n- id: r2", 1)
	gone := strings.Replace(listed, "{id: r1,", "{id: r1, state: decommissioned,", 1)
	with := func(id, name, uuid string) *corev1.Node { return joins(withProviderID(shows(name, uuid), id)) }
	for _, tt := range []struct {
		name      string
		inventory string
		node      *corev1.Node
		peers     []*corev1.Node
		want      string // provider ID
		wantWarn  string
	}{
		{
			name:      "hold: a provider ID of nobody's",
			inventory: listed,
			node:      with("x://y", "w9", ""),
			wantWarn:  "UnknownMachine",
		},
		{
			name:      "hold: a provider ID of ours that is not listed",
			inventory: listed,
			node:      with("onprem://ber1/nobody", "w9", stranger),
			wantWarn:  "UnprovenIdentity",
		},
		{
			name:      "hold: a provider ID of another site",
			inventory: listed,
			node:      with("onprem://ham1/r1", "w9", stranger),
			wantWarn:  "UnprovenIdentity",
		},
		{
			name:      "hold: a provider ID that it would be given under adopt",
			inventory: listed,
			node:      with("onprem://ber1/node-w9", "w9", ""),
			wantWarn:  "UnprovenIdentity",
		},
		{
			name:      "a listed machine's provider ID, and nothing else",
			inventory: listed,
			node:      with("onprem://ber1/r1", "w9", stranger),
			wantWarn:  "UnprovenIdentity",
		},
		{
			name:      "a listed machine's provider ID, and another one's UUID",
			inventory: listed,
			node:      with("onprem://ber1/r1", "w9", uuidC),
			wantWarn:  "OtherMachine",
		},
		{
			name:      "a listed machine's provider ID and name, and another UUID",
			inventory: listed,
			node:      with("onprem://ber1/r1", "w1", stranger),
			wantWarn:  "OtherMachine",
		},
		{
			name:      "a provider ID that all else supports",
			inventory: listed,
			node:      with("onprem://ber1/r1", "w1", uuidA),
			want:      "onprem://ber1/r1",
		},
		{
			name:      "the same, but another Node has it",
			inventory: listed,
			node:      with("onprem://ber1/r1", "w9", uuidA),
			peers:     []*corev1.Node{withProviderID(shows("w1", uuidA), "onprem://ber1/r1")},
			wantWarn:  "MachineTaken",
		},
		{
			name:      "a machine that will not come back",
			inventory: gone,
			node:      with("", "w1", uuidA),
			wantWarn:  "Decommissioned",
		},
		{
			name:      "adopt: a provider ID made from what it shows",
			inventory: adopting,
			node:      with("onprem://ber1/"+stranger, "w9", stranger),
			want:      "onprem://ber1/" + stranger,
		},
		{
			name:      "adopt: one made from what another shows",
			inventory: adopting,
			node:      with("onprem://ber1/"+stranger, "w9", ""),
			wantWarn:  "UnprovenIdentity",
		},
		{
			name:      "adopt: another provider's",
			inventory: adopting,
			node:      with("kwok://w9", "w9", ""),
			want:      "kwok://w9",
		},
		{
			name:      "adopt: another provider's, twice",
			inventory: adopting,
			node:      with("kwok://w9", "w9", ""),
			peers:     []*corev1.Node{withProviderID(shows("w8", ""), "kwok://w9")},
			wantWarn:  "MachineTaken",
		},
		{
			name:      "hold: another provider's, listed",
			inventory: foreign,
			node:      with("kwok://r4", "w9", ""),
			want:      "kwok://r4",
		},
		{
			name:      "hold: another provider's, listed with a UUID that it does not show",
			inventory: foreign,
			node:      with("kwok://r3", "w9", ""),
			wantWarn:  "OtherMachine",
		},
		{
			name:      "the address of another machine",
			inventory: listed,
			node:      joins(withNodeIP(shows("w1", uuidA), "198.18.0.22")),
			wantWarn:  "AddressTaken",
		},
		{
			name:      "the serial number of another machine, which is a Node",
			inventory: strings.Replace(listed, "macs: [\"52:54:00:00:00:01\"]", "serial: S1", 1),
			node: func() *corev1.Node {
				node := with("", "w9", "")
				node.Annotations = map[string]string{v1alpha1.SerialAnnotation: "S1"}
				return node
			}(),
			peers:    []*corev1.Node{withProviderID(shows("w1", uuidA), "onprem://ber1/r1")},
			wantWarn: "MachineTaken",
		},
		{
			name:      "initialized already, by whoever registered it without the taint, and younger than the one that is it",
			inventory: listed,
			node:      created(withProviderID(shows("w9", uuidA), "onprem://ber1/r1"), 2),
			peers:     []*corev1.Node{created(withProviderID(shows("old", uuidA), "onprem://ber1/r1"), 1)},
			wantWarn:  "MachineTaken",
		},
		{
			name:      "the one that is it keeps it",
			inventory: listed,
			node:      created(withProviderID(shows("old", uuidA), "onprem://ber1/r1"), 1),
			peers:     []*corev1.Node{created(withProviderID(shows("w9", uuidA), "onprem://ber1/r1"), 2)},
			want:      "onprem://ber1/r1",
		},
		{
			name:      "the one that is listed keeps it, though it is younger",
			inventory: listed,
			node:      created(withProviderID(shows("w1", uuidA), "onprem://ber1/r1"), 2),
			peers:     []*corev1.Node{created(withProviderID(shows("w9", uuidA), "onprem://ber1/r1"), 1)},
			want:      "onprem://ber1/r1",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i, warnings := withInventory(t, tt.inventory, append(tt.peers, tt.node)...)
			got, err := i.InstanceMetadata(t.Context(), tt.node)
			if tt.wantWarn != "" {
				if err == nil || len(*warnings) != 1 || !strings.HasPrefix((*warnings)[0], tt.wantWarn+": ") {
					t.Errorf("got %+v, error %v and warnings %q, want %s", got, err, *warnings, tt.wantWarn)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.ProviderID != tt.want {
				t.Errorf("got provider ID %s, want %s", got.ProviderID, tt.want)
			}
		})
	}
}

// A Node that registers with a provider ID of ours and without the taint is not the machine by that alone, and does not keep the ID from
// the Node of the machine's name. Of one that was there before this process led, that is not known.
func TestRegistered_ProvesItsMachine(t *testing.T) {
	for _, tt := range []struct {
		name   string
		node   *corev1.Node
		before bool
		is     bool // the machine
	}{
		{"nothing else is the machine's", shows("w9", ""), false, false},
		{"it shows another machine", shows("w9", uuidC), false, false},
		{"it was there before", shows("w9", ""), true, true},
		{"it has the machine's UUID, and no Node its name", shows("w9", uuidA), false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			came, named := withProviderID(tt.node, "onprem://ber1/r1"), joins(shows("w1", uuidA))
			peers := []*corev1.Node{came, named}
			if tt.is {
				peers = peers[:1]
			}
			i, _ := withInventory(t, listed, peers...)
			n := &Nodes{instances: i, store: i.machines.store, events: newEvents(record.NewFakeRecorder(10), time.Now)}
			n.registered(came, tt.before)
			f := &follower{machines: i.machines, warn: func(*corev1.Node, string, string) {}}
			if got := f.listed(came, indexed(t, peers)); (got != nil) != tt.is {
				t.Errorf("it follows machine %+v, want that: %t", got, tt.is)
			}
			if got, err := n.InstanceMetadata(t.Context(), came); (err == nil) != tt.is {
				t.Errorf("got %+v, %v, want an answer: %t", got, err, tt.is)
			}
			if tt.is {
				return
			}
			got, err := n.InstanceMetadata(t.Context(), named)
			if err != nil || got.ProviderID != "onprem://ber1/r1" {
				t.Errorf("the Node of the machine's name got %+v, %v", got, err)
			}
		})
	}
}

// A provider ID of ours that no initialization gave has to be proven, whenever it came.
func TestUpdated_ProvesItsMachine(t *testing.T) {
	with := func(node *corev1.Node, uid types.UID, id string) *corev1.Node {
		node = withProviderID(node, id)
		node.UID = uid
		return node
	}
	const id = "onprem://ber1/r1"
	for _, tt := range []struct {
		name          string
		before, after *corev1.Node
		want          bool // it has to be proven
	}{
		{"its kubelet writes the ID afterwards", with(shows("w9", ""), "a", ""), with(shows("w9", ""), "a", id), true},
		{"it registered again meanwhile", with(shows("w9", ""), "a", id), with(shows("w9", ""), "b", id), true},
		{"its kubelet writes the ID before", joins(with(shows("w9", ""), "a", "")), joins(with(shows("w9", ""), "a", id)), false},
		{"it was initialized", joins(with(shows("w9", ""), "a", "")), with(shows("w9", ""), "a", id), false},
		{"it had the ID", with(shows("w9", ""), "a", id), with(shows("w9", uuidA), "a", id), false},
		{"another provider's ID", with(shows("w9", ""), "a", ""), with(shows("w9", ""), "a", "kwok://w9"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i, _ := withInventory(t, listed, tt.after)
			n := &Nodes{instances: i, store: i.machines.store, events: newEvents(record.NewFakeRecorder(10), time.Now)}
			n.updated(tt.before, tt.after)
			if got := !uninitialized(tt.after) && !n.machines.settled(tt.after); got != tt.want {
				t.Errorf("it has to be proven: %t, want %t", got, tt.want)
			}
		})
	}
}

// A Node that has proven its machine is like one that was initialized: it keeps it from a clone that comes later, and when the board is
// replaced.
func TestRegistered_ProvesItOnce(t *testing.T) {
	honest := created(withProviderID(shows("w7", uuidA), "onprem://ber1/r1"), 1)
	i, _ := withInventory(t, listed, honest)
	n := &Nodes{instances: i, store: i.machines.store, events: newEvents(record.NewFakeRecorder(10), time.Now)}
	f := &follower{machines: i.machines, warn: func(*corev1.Node, string, string) {}}
	n.registered(honest, false)
	if f.listed(honest, indexed(t, []*corev1.Node{honest})) == nil {
		t.Fatal("it does not follow its machine")
	}
	clone := created(joins(shows("w8", uuidA)), 2)
	nodes := indexed(t, []*corev1.Node{honest, clone})
	if f.listed(honest, nodes) == nil || f.listed(clone, nodes) != nil {
		t.Error("a clone that comes later takes the machine")
	}
	board := honest.DeepCopy()
	board.Status.NodeInfo.SystemUUID = ""
	if f.listed(board, indexed(t, []*corev1.Node{board})) == nil {
		t.Error("it does not follow its machine any more, since its board was replaced")
	}
}

// The informer tells of updates, too.
func TestNew_WatchesUpdates(t *testing.T) {
	client := fake.NewClientset()
	informer := informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer()
	recorder := record.NewFakeRecorder(10)
	if _, err := New(Settings{
		Configuration: config.OnPremConfiguration{}, Client: client, Informer: informer, Recorder: recorder, Now: time.Now,
	}); err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer has not synced")
	}
	node, err := client.CoreV1().Nodes().Create(t.Context(), shows("w9", ""), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Spec.ProviderID = "onprem://ber1/r1"
	if _, err := client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-recorder.Events:
		if !strings.Contains(got, "Untainted") {
			t.Errorf("got Event %q", got)
		}
	case <-time.After(time.Minute):
		t.Error("there is no Event of the provider ID")
	}
}

// A kubelet may write any annotation of its Node, and not take away the label of a control plane.
func TestOwnLabels_BelievesNoKubelet(t *testing.T) {
	node := shows("w1", uuidA)
	node.Labels = map[string]string{v1alpha1.ControlPlaneLabel: "", "example.com/old": "ours", v1alpha1.MachineLabel: "r1"}
	node.Annotations = map[string]string{v1alpha1.FollowedLabelsAnnotation: v1alpha1.ControlPlaneLabel + ",example.com/old,ccmadm.dev/other,a b"}
	patch := map[string]*string{}
	ownLabels(node, map[string]string{v1alpha1.MachineLabel: "r1"}, patch)
	if _, touched := patch["example.com/old"]; !touched || len(patch) != 1 {
		t.Errorf("got changes %v, want that of example.com/old", patch)
	}
}

// What a kubelet says is shown on terminals.
func TestEvents_CleansText(t *testing.T) {
	s := newSite(t, 1)
	e := newEvents(recorder{s}, time.Now)
	e.warn(s.all[0], "UnknownMachine", "gives \x1b]0;owned\x07x://\x1b[31my\n"+strings.Repeat("z", 5000))
	if got := s.warnings[0]; strings.ContainsAny(got, "\x1b\x07\n") || len(got) > maxMessage+50 {
		t.Errorf("got %q", got)
	}
}
