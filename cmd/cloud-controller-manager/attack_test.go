package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const uuidOfNobody = "7f7f4544-0042-3510-8052-b3c04f4b4e32"

// besieged lists the machines of a cluster that somebody with the credentials of kubelets wants into.
const besieged = `apiVersion: ccmadm.dev/v1alpha1
kind: Inventory
metadata: {site: ber1, serial: %d}
policy: {unknownNodes: hold}
machines:
- id: r1
  hostname: live
  rack: r12
  match: {systemUUID: ` + uuid1 + `, serial: 6XK0QN3}
  addresses: [{type: InternalIP, address: 198.18.1.1}]
- {id: r2, hostname: gone, state: decommissioned}
- {id: r3, hostname: elsewhere, addresses: [{type: InternalIP, address: 198.18.1.3}]}
- {id: r4, hostname: neighbour}
- {id: r5, hostname: deputy, labels: {example.com/disk: nvme}}
- {id: r6, hostname: evader, taints: [{key: example.com/dedicated, effect: NoSchedule}]}
`

// kubeletOf returns a client with the credentials of that Node's kubelet.
func kubeletOf(t *testing.T, node string) *kubernetes.Clientset {
	t.Helper()
	config, err := plane.User("system:node:"+node, "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	return client(t, config)
}

// registers lets that kubelet register its own Node, with whatever it wants to say.
func registers(t *testing.T, name, ip string, say func(*corev1.Node)) *corev1.Node {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.ProvidedNodeIPAnnotation: ip}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
			Key: v1alpha1.UninitializedTaint, Value: "true",
			Effect: corev1.TaintEffectNoSchedule,
		}}},
	}
	say(node)
	node, err := kubeletOf(t, name).CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client(t, plane.Config).CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
	})
	return node
}

// With the credentials of a kubelet alone, against a real API server with NodeRestriction: nothing is gained, and each
// attempt is seen in an Event.
func TestCluster_Attacks(t *testing.T) {
	publish(t, fmt.Sprintf(besieged, 1))
	registers(t, "live", "198.18.1.1", func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID = uuid1 })
	start(t, inventoryManager(t), "--cloud-config="+cloudConfig(t))
	live := initialized(t, "live")

	for _, attack := range []struct {
		name, node, ip string
		say            func(*corev1.Node)
		want           string // reason of the Event
	}{
		{
			name: "unlisted, with a provider ID of nobody's, and escape sequences for whoever reads it",
			node: "evil-1",
			ip:   "198.18.2.1",
			say:  func(n *corev1.Node) { n.Spec.ProviderID = "x://\x1b]0;y\a\x1b[2J" },
			want: "UnknownMachine",
		},
		{
			name: "unlisted, with a provider ID of ours",
			node: "evil-2",
			ip:   "198.18.2.2",
			say:  func(n *corev1.Node) { n.Spec.ProviderID = "onprem://ber1/nobody" },
			want: "UnprovenIdentity",
		},
		{
			name: "the provider ID of a live machine",
			node: "evil-3",
			ip:   "198.18.2.3",
			say: func(n *corev1.Node) {
				n.Spec.ProviderID, n.Status.NodeInfo.SystemUUID = "onprem://ber1/r1", uuidOfNobody
			},
			want: "UnprovenIdentity",
		},
		{
			name: "the provider ID and the UUID of a live machine, as a clone has them",
			node: "evil-4",
			ip:   "198.18.1.1",
			say: func(n *corev1.Node) {
				n.Spec.ProviderID, n.Status.NodeInfo.SystemUUID = "onprem://ber1/r1", uuid1
			},
			want: "MachineTaken",
		},
		{
			name: "the same without the taint, so that nobody initializes it",
			node: "evil-5",
			ip:   "198.18.1.1",
			say: func(n *corev1.Node) {
				n.Spec.ProviderID, n.Status.NodeInfo.SystemUUID, n.Spec.Taints = "onprem://ber1/r1", uuid1, nil
			},
			want: "MachineTaken",
		},
		{
			name: "the serial number of a live machine",
			node: "evil-6",
			ip:   "198.18.1.1",
			say:  func(n *corev1.Node) { n.Annotations[v1alpha1.SerialAnnotation] = "6XK0QN3" },
			want: "MachineTaken",
		},
		{
			name: "a machine that was decommissioned",
			node: "gone",
			ip:   "198.18.2.7",
			say:  func(*corev1.Node) {},
			want: "Decommissioned",
		},
		{
			name: "another address than the listed one",
			node: "elsewhere",
			ip:   "198.18.2.8",
			say:  func(*corev1.Node) {},
			want: "AddressNotListed",
		},
		{
			name: "the address of another machine",
			node: "neighbour",
			ip:   "198.18.1.3",
			say:  func(*corev1.Node) {},
			want: "AddressTaken",
		},
	} {
		t.Run(attack.name, func(t *testing.T) {
			node := registers(t, attack.node, attack.ip, attack.say)
			if e := event(t, node, attack.want); strings.ContainsAny(e.Message, "\x1b\a") {
				t.Errorf("the Event holds control characters: %q", e.Message)
			}
			now, err := client(t, plane.Config).CoreV1().Nodes().Get(t.Context(), attack.node, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if tainted(now) != tainted(node) || now.Spec.ProviderID != node.Spec.ProviderID || len(now.Labels) > 0 {
				t.Errorf("it gained something: taints %v, provider ID %s, labels "+
					"%v", now.Spec.Taints, now.Spec.ProviderID, now.Labels)
			}
		})
	}

	now, err := client(t, plane.Config).CoreV1().Nodes().Get(t.Context(), "live", metav1.GetOptions{})
	if err != nil || now.UID != live.UID || now.Spec.ProviderID != "onprem://ber1/r1" ||
		now.Labels[v1alpha1.RackLabel] != "r12" {
		t.Errorf("the Node that was attacked: %v, %v", now, err)
	}
	attackDeputy(t)
	attackTaints(t)
}

// attackDeputy has the manager take away a label that the kubelet may not.
func attackDeputy(t *testing.T) {
	admin := client(t, plane.Config).CoreV1().Nodes()
	node := registers(t, "deputy", "198.18.2.9", func(*corev1.Node) {})
	initialized(t, "deputy")
	const merge = "application/merge-patch+json"
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:""}}}`, v1alpha1.ControlPlaneLabel)
	if _, err := admin.Patch(t.Context(), "deputy", merge, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	own := kubeletOf(t, "deputy").CoreV1().Nodes()
	forbidden := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, v1alpha1.ControlPlaneLabel)
	if _, err := own.Patch(t.Context(), "deputy", merge, forbidden, metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("a kubelet may do it itself: %v", err)
	}
	note := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.FollowedLabelsAnnotation, "example.com/disk,"+v1alpha1.ControlPlaneLabel)
	if _, err := own.Patch(t.Context(), "deputy", merge, note, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	publish(t, strings.Replace(fmt.Sprintf(besieged, 2), "nvme", "ssd", 1))
	event(t, node, "ForgedRecord")
	eventually(t, "the Node follows the inventory", func(ctx context.Context) error {
		now, err := admin.Get(ctx, "deputy", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := now.Labels["example.com/disk"]; got != "ssd" {
			return fmt.Errorf("the label is %q", got)
		}
		if _, there := now.Labels[v1alpha1.ControlPlaneLabel]; !there {
			t.Error("the manager took the label away for the kubelet")
		}
		return nil
	})
}

// attackTaints registers without any taint, and with the label of a Node that has been prepared already.
func attackTaints(t *testing.T) {
	node := registers(t, "evader", "198.18.2.10", func(n *corev1.Node) {
		n.Spec.Taints, n.Labels = nil, map[string]string{v1alpha1.MachineLabel: "r6"}
		n.Spec.ProviderID = "onprem://ber1/r6"
	})
	event(t, node, "Untainted")
	publish(t, strings.Replace(fmt.Sprintf(besieged, 3), "nvme", "ssd", 1))
	eventually(t, "the machine's taint is on the Node", func(ctx context.Context) error {
		now, err := client(t, plane.Config).CoreV1().Nodes().Get(ctx, "evader", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(now.Spec.Taints,
			func(taint corev1.Taint) bool { return taint.Key == "example.com/dedicated" }) {
			return fmt.Errorf("it has taints %v", now.Spec.Taints)
		}
		return nil
	})
	untaint := []byte(`{"spec":{"taints":[]}}`)
	_, err := kubeletOf(t, "evader").CoreV1().Nodes().Patch(t.Context(), "evader", "application/merge-patch+json",
		untaint, metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("the kubelet takes it away: %v", err)
	}
}

// A bootstrap token alone is good for a certificate of a kubelet, and for nothing of ours.
func TestCluster_BootstrapTokenGetsNothing(t *testing.T) {
	publish(t, fmt.Sprintf(besieged, 1))
	config, err := plane.User("system:bootstrap:abcdef", "system:bootstrappers",
		"system:bootstrappers:kubeadm:default-node-token")
	if err != nil {
		t.Fatal(err)
	}
	c, ctx := client(t, config), t.Context()
	_, create := c.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "evil"}},
		metav1.CreateOptions{})
	_, read := c.CoreV1().ConfigMaps("kube-system").Get(ctx, "ccmadm-machines", metav1.GetOptions{})
	_, write := c.CoreV1().ConfigMaps("kube-system").Update(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name:      v1alpha1.LastGoodMachinesName,
			Namespace: "kube-system",
		}}, metav1.UpdateOptions{})
	for what, err := range map[string]error{
		"create a Node": create, "read the inventory": read,
		"write the last good one": write,
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
