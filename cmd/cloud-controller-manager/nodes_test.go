package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

const (
	uuid1    = "4c4c4544-0042-3510-8052-b3c04f4b4e32"
	machine1 = "1d1d1d1d2e2e2e2e3f3f3f3f4a4a4a4a"
	machine2 = "7b0c9cf8a4b14c66b31dc2eeb6b9f2a1"
)

// join does what a kubelet with --cloud-provider=external and --node-ip does: it
// registers the Node with the taint, and publishes status.
func join(t *testing.T, name, nodeIP string, status corev1.NodeStatus) *corev1.Node {
	t.Helper()
	nodes := client(t, plane.Config).CoreV1().Nodes()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
			Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule,
		}}},
		Status: status,
	}
	if nodeIP != "" {
		node.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: nodeIP}
	}
	node, err := nodes.Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := nodes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	return node
}

// initialized waits until the Node has its identity and an address, and no taint.
func initialized(t *testing.T, name string) *corev1.Node {
	t.Helper()
	var node *corev1.Node
	nodes := client(t, plane.Config).CoreV1().Nodes()
	eventually(t, "Node/"+name+" is initialized", func(ctx context.Context) error {
		var err error
		node, err = nodes.Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case tainted(node):
			return errors.New("it has the taint")
		case node.Spec.ProviderID == "":
			return errors.New("it has no provider ID")
		case len(node.Status.Addresses) == 0:
			return errors.New("it has no address")
		}
		return nil
	})
	return node
}

func tainted(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
			return true
		}
	}
	return false
}

// event waits for an Event about the Node and returns the last one.
func event(t *testing.T, node *corev1.Node, reason string) corev1.Event {
	t.Helper()
	var found corev1.Event
	about := metav1.ListOptions{FieldSelector: "reason=" + reason + ",involvedObject.uid=" + string(node.UID)}
	eventually(t, "there is an Event "+reason, func(ctx context.Context) error {
		list, err := client(t, plane.Config).CoreV1().Events("").List(ctx, about)
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return errors.New("none")
		}
		found = list.Items[len(list.Items)-1]
		return nil
	})
	return found
}

func TestCluster_InitializesNode(t *testing.T) {
	cloudConfig := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(cloudConfig, []byte("apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\nsite: "+
		"ber1\nzone: ber-a\nregion: ber\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status := corev1.NodeStatus{
		NodeInfo: corev1.NodeSystemInfo{SystemUUID: strings.ToUpper(uuid1), MachineID: machine1},
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "198.18.0.2"}, {Type: corev1.NodeHostName, Address: "dual"},
		},
	}
	join(t, "dual", "198.18.0.2,fd00::2", status)
	start(t, controllerManager(t), "--cloud-config="+cloudConfig).healthy()

	node := initialized(t, "dual")
	if want := "onprem://ber1/" + uuid1; node.Spec.ProviderID != want {
		t.Errorf("got provider ID %s, want %s", node.Spec.ProviderID, want)
	}
	wantAddresses := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "198.18.0.2"},
		{Type: corev1.NodeInternalIP, Address: "fd00::2"},
		{Type: corev1.NodeHostName, Address: "dual"},
	}
	eventually(t, "all addresses are there", func(ctx context.Context) error {
		node, err := client(t, plane.Config).CoreV1().Nodes().Get(ctx, "dual", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if diff := cmp.Diff(wantAddresses, node.Status.Addresses); diff != "" {
			return fmt.Errorf("-want +got:\n%s", diff)
		}
		return nil
	})
	wantLabels := map[string]string{
		corev1.LabelTopologyZone: "ber-a", corev1.LabelFailureDomainBetaZone: "ber-a",
		corev1.LabelTopologyRegion: "ber", corev1.LabelFailureDomainBetaRegion: "ber",
	}
	if diff := cmp.Diff(wantLabels, node.Labels); diff != "" {
		t.Errorf("labels, -want +got:\n%s", diff)
	}
}

func TestCluster_ClonesDiffer(t *testing.T) {
	start(t, controllerManager(t)).says("Successfully acquired lease")
	ids := map[string]string{}
	names := []string{"clone-a", "clone-b", "clone-c"}
	for _, name := range names {
		join(t, name, "198.18.0.2", corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{SystemUUID: uuid1, MachineID: machine1},
		})
	}
	for _, name := range names {
		id := initialized(t, name).Spec.ProviderID
		if other, ok := ids[id]; ok {
			t.Errorf("%s and %s are both %s", other, name, id)
		}
		ids[id] = name
	}
}

func TestCluster_ForeignNodeStaysForeign(t *testing.T) {
	nodes := client(t, plane.Config).CoreV1().Nodes()
	join(t, "foreign", "198.18.0.2", corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: machine2}})
	patch := []byte(`{"spec":{"providerID":"kwok://foreign"}}`)
	if _, err := nodes.Patch(t.Context(), "foreign", "application/merge-patch+json", patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	start(t, controllerManager(t))
	if got := initialized(t, "foreign").Spec.ProviderID; got != "kwok://foreign" {
		t.Errorf("got provider ID %s", got)
	}
}

// Without --node-ip a kubelet publishes a host name only: the taint stays, and
// one Event says what to do.
func TestCluster_NoAddress(t *testing.T) {
	c := client(t, plane.Config)
	node := join(t, "bare", "", corev1.NodeStatus{
		NodeInfo:  corev1.NodeSystemInfo{MachineID: machine2},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "bare"}},
	})
	p := start(t, controllerManager(t))
	warning := event(t, node, "NoAddress")
	if warning.Type != corev1.EventTypeWarning || !strings.Contains(warning.Message, "--node-ip") {
		t.Errorf("got Event %s %q", warning.Type, warning.Message)
	}
	eventually(t, "it was tried several times", func(context.Context) error {
		if n := strings.Count(p.log.String(), "find addresses of Node/bare"); n < 5 {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
	if node, err := c.CoreV1().Nodes().Get(t.Context(), "bare", metav1.GetOptions{}); err != nil || !tainted(node) {
		t.Errorf("got error %v and Node %v, want a tainted one", err, node)
	}
	if again := event(t, node, "NoAddress"); again.UID != warning.UID || again.Count != 1 {
		t.Errorf("got an Event %d times, want once", again.Count)
	}

	patch := []byte(`{"status":{"addresses":[{"type":"InternalIP","address":"198.18.0.9"}]}}`)
	if _, err := c.CoreV1().Nodes().Patch(t.Context(), "bare", "application/merge-patch+json", patch,
		metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	initialized(t, "bare")
}
