package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const machines = `apiVersion: ccmadm.dev/v1alpha1
kind: Inventory
metadata: {site: ber1, serial: 7}
policy: {unknownNodes: hold}
machines:
- {id: r12-u07, hostname: listed, region: ber, zone: ber-a, rack: r12, labels: {example.com/disk: nvme}, match: {systemUUID: ` + uuid1 + `}}
`

// cloudConfig writes a configuration file that takes the inventory from a ConfigMap.
func cloudConfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	content := "apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\ninventory: {configMap: ccmadm-machines}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// publish makes or replaces the ConfigMap of the inventory.
func publish(t *testing.T, document string) {
	t.Helper()
	maps := client(t, plane.Config).CoreV1().ConfigMaps("kube-system")
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "ccmadm-machines"},
		Data:       map[string]string{"inventory.yaml": document},
	}
	if _, err := maps.Update(t.Context(), object, metav1.UpdateOptions{}); err == nil {
		return
	}
	if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range []string{"ccmadm-machines", "ccmadm-machines-last-good"} {
			_ = maps.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		}
	})
}

// has waits until Node/listed has a label.
func has(t *testing.T, label, value string) {
	t.Helper()
	eventually(t, "Node/listed has "+label+"="+value, func(ctx context.Context) error {
		n, err := client(t, plane.Config).CoreV1().Nodes().Get(ctx, "listed", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := n.Labels[label]; got != value {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// A listed machine is initialized as listed, and follows. One that is not waits,
// says why, and is initialized once it is listed. A broken inventory changes nothing.
func TestCluster_Inventory(t *testing.T) {
	publish(t, machines)
	join(t, "listed", "198.18.0.2", corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: uuid1}})
	stranger := join(t, "stranger", "198.18.0.3", corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: machine2}})
	p := start(t, inventoryManager(t), "--cloud-config="+cloudConfig(t))

	if got := initialized(t, "listed").Spec.ProviderID; got != "onprem://ber1/r12-u07" {
		t.Errorf("got provider ID %s", got)
	}
	has(t, corev1.LabelTopologyZone, "ber-a")
	has(t, "example.com/disk", "nvme")
	has(t, "ccmadm.dev/rack", "r12")
	if e := event(t, stranger, "UnknownMachine"); e.Type != corev1.EventTypeWarning || !strings.Contains(e.Message,
		"hostname stranger") {
		t.Errorf("got Event %s %q", e.Type, e.Message)
	}

	publish(t, strings.NewReplacer("zone: ber-a", "zone: ber-b", "{example.com/disk: nvme}",
		"{example.com/disk: ssd}").Replace(machines)+
		"- {id: r12-u08, hostname: stranger}\n")
	has(t, corev1.LabelTopologyZone, "ber-b")
	has(t, "example.com/disk", "ssd")
	if got := initialized(t, "stranger").Spec.ProviderID; got != "onprem://ber1/r12-u08" {
		t.Errorf("got provider ID %s", got)
	}

	publish(t, "<html>502 Bad Gateway</html>")
	p.says("Inventory rejected, the last good one stays")
	state(t, "Stale: Malformed")
	if code := p.stop(); code != 0 {
		t.Errorf("got exit code %d", code)
	}

	// The next process has nothing but the copy.
	p = start(t, inventoryManager(t), "--cloud-config="+cloudConfig(t))
	p.says("Inventory rejected, the last good one stays")
	join(t, "later", "198.18.0.4", corev1.NodeStatus{})
	nodes := client(t, plane.Config).CoreV1().Nodes()
	patch := []byte(`{"metadata":{"labels":{"topology.kubernetes.io/zone":"wrong","failure-domain.beta.kubernetes.io/zone":"wrong"}}}`)
	if _, err := nodes.Patch(t.Context(), "listed", "application/merge-patch+json", patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	has(t, corev1.LabelTopologyZone, "ber-b")
	publish(t, machines+"- {id: r12-u08, hostname: stranger}\n- {id: r12-u09, hostname: later}\n")
	if got := initialized(t, "later").Spec.ProviderID; got != "onprem://ber1/r12-u09" {
		t.Errorf("got provider ID %s", got)
	}
	state(t, "Confirmed")
	p.stop()
	if strings.Contains(p.log.String(), "forbidden") {
		t.Error("a permission is missing")
	}
}

// Where the machine's taints cannot be written, the Node waits with the taint that it has, and says why.
func TestCluster_NotPrepared(t *testing.T) {
	publish(t, machines+"- {id: r12-u08, hostname: withheld, taints: [{key: example.com/gpu, effect: NoSchedule}]}\n")
	kubeconfig := inventoryManager(t)
	roles := client(t, plane.Config).RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), "ccm-notprepared", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	complete := role.DeepCopy().Rules
	for n := range role.Rules {
		rule := &role.Rules[n]
		if slices.Contains(rule.Resources, "nodes") {
			rule.Verbs = slices.DeleteFunc(rule.Verbs, func(verb string) bool { return verb == "patch" })
		}
	}
	if role, err = roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	node := join(t, "withheld", "198.18.0.5", corev1.NodeStatus{})
	start(t, kubeconfig, "--cloud-config="+cloudConfig(t))
	if e := event(t, node, "NotPrepared"); !strings.Contains(e.Message, `cannot patch resource "nodes"`) {
		t.Errorf("the Event says %q", e.Message)
	}
	now, err := client(t, plane.Config).CoreV1().Nodes().Get(t.Context(), "withheld", metav1.GetOptions{})
	if err != nil || !tainted(now) || now.Spec.ProviderID != "" {
		t.Errorf("it was initialized: taints %v, provider ID %q, %v", now.Spec.Taints, now.Spec.ProviderID, err)
	}

	role.Rules = complete
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	now = initialized(t, "withheld")
	if !slices.ContainsFunc(now.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == "example.com/gpu" }) {
		t.Errorf("it has taints %v", now.Spec.Taints)
	}
}

// state waits for that of the last good copy.
func state(t *testing.T, want string) {
	t.Helper()
	eventually(t, "the copy is "+want, func(ctx context.Context) error {
		object, err := client(t, plane.Config).CoreV1().ConfigMaps("kube-system").Get(ctx, "ccmadm-machines-last-good",
			metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := object.Annotations["ccmadm.dev/inventory-state"]; !strings.HasPrefix(got, want) {
			return errors.New("it is " + got)
		}
		return nil
	})
}
