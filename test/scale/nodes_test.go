package scale

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	taintUninitialized   = "node.cloudprovider.kubernetes.io/uninitialized"
	annotationProvidedIP = "alpha.kubernetes.io/provided-node-ip"
	workers              = 32 // of the bare client: as many as the cloud-controller-manager has
	patience             = 10 * time.Minute
)

// unlimited returns a client without a limit of its own, in the wire format of the cloud-controller-manager.
func unlimited(b *testing.B, config *rest.Config) *kubernetes.Clientset {
	b.Helper()
	c := rest.CopyConfig(config)
	c.QPS = -1
	c.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		b.Fatal(err)
	}
	return client
}

// parallel calls f with every number below n.
func parallel(b *testing.B, n int, f func(i int) error) {
	b.Helper()
	numbers := make(chan int)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range numbers {
				if err := f(i); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	group.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// kubelet returns the Node that a kubelet with --cloud-provider=external and --node-ip registers.
func kubelet(name string, i int) *corev1.Node {
	now := metav1.Now()
	node := &corev1.Node{}
	node.Name = name
	node.Labels = map[string]string{
		corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
	}
	node.Annotations = map[string]string{annotationProvidedIP: fmt.Sprintf("198.18.%d.%d", i/250, i%250+1)}
	node.Spec.Taints = []corev1.Taint{{Key: taintUninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	node.Status.NodeInfo = corev1.NodeSystemInfo{
		MachineID: fmt.Sprintf("%032x", i+1), SystemUUID: uuid(i), KubeletVersion: "v1.36.3",
		OSImage: "Debian GNU/Linux 12 (bookworm)", KernelVersion: "6.1.0", ContainerRuntimeVersion: "containerd://2.1.4",
	}
	for _, condition := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure,
		corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		status := corev1.ConditionFalse
		if condition == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: condition, Status: status, LastHeartbeatTime: now, LastTransitionTime: now, Reason: "Kubelet", Message: "kubelet says so",
		})
	}
	return node
}

func uuid(i int) string { return fmt.Sprintf("4c4c4544-0042-3510-8052-%012x", i+1) }

// inventory lists a machine for each of n kubelets; extra is what else is said of each.
func inventory(n int, extra string) string {
	var text strings.Builder
	text.WriteString("apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {site: ber1, serial: 1}\n" +
		"defaults: {region: ber, instanceType: generic}\npolicy: {unknownNodes: hold}\nmachines:\n")
	for i := range n {
		fmt.Fprintf(&text, "- {id: m%05d, zone: ber-%d, rack: r%d, match: {systemUUID: "+
			"%s}%s}\n", i, i%3, i/40, uuid(i), extra)
	}
	return text.String()
}

// progress is what a watch has seen of Nodes that are initialized: the taint has gone, and they have an address.
type progress struct {
	at   []time.Time
	done chan struct{} // n of them
}

func waits(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == taintUninitialized })
}

// watchNodes notes when each of the next n Nodes was initialized.
func watchNodes(ctx context.Context, b *testing.B, client kubernetes.Interface, n int) *progress {
	b.Helper()
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		b.Fatal(err)
	}
	changes, err := client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		b.Fatal(err)
	}
	p := &progress{done: make(chan struct{})}
	go func() {
		defer changes.Stop()
		seen := map[types.UID]bool{}
		for change := range changes.ResultChan() {
			node, ok := change.Object.(*corev1.Node)
			if !ok || change.Type == watch.Deleted || seen[node.UID] || len(node.Status.Addresses) == 0 || waits(node) {
				continue
			}
			seen[node.UID] = true
			p.at = append(p.at, time.Now())
			if len(p.at) == n {
				close(p.done)
				return
			}
		}
	}()
	return p
}

// wait waits for the last of them.
func (p *progress) wait(b *testing.B) {
	b.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		b.Fatal("Nodes are not initialized")
	}
}

// rate returns how many Nodes a second were initialized, from the first to the last.
func (p *progress) rate() float64 {
	return float64(len(p.at)-1) / p.at[len(p.at)-1].Sub(p.at[0]).Seconds()
}

// register creates n Nodes, and returns them.
func register(ctx context.Context, b *testing.B, client kubernetes.Interface, prefix string, n int) []*corev1.Node {
	b.Helper()
	nodes := make([]*corev1.Node, n)
	parallel(b, n, func(i int) (err error) {
		nodes[i], err = client.CoreV1().Nodes().Create(ctx, kubelet(fmt.Sprintf("%s-%05d", prefix, i), i),
			metav1.CreateOptions{})
		return err
	})
	return nodes
}

// remove deletes all Nodes and Events, and the inventory that the cloud-controller-manager kept: the next one is
// another.
func remove(ctx context.Context, b *testing.B, client kubernetes.Interface) {
	b.Helper()
	all, everything := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}
	if err := client.CoreV1().Nodes().DeleteCollection(ctx, all, everything); err != nil {
		b.Fatal(err)
	}
	if err := client.CoreV1().Events(metav1.NamespaceDefault).DeleteCollection(ctx, all, everything); err != nil {
		b.Fatal(err)
	}
	if err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).DeleteCollection(ctx, all,
		metav1.ListOptions{FieldSelector: "metadata.name=ccmadm-machines-last-good"}); err != nil {
		b.Fatal(err)
	}
}

// initialize is the bare client: the three requests for a Node that upstream's node controller makes, and nothing else.
func initialize(ctx context.Context, client kubernetes.Interface, node *corev1.Node, withEvent bool) error {
	next := node.DeepCopy()
	next.Spec.ProviderID = "onprem://ber1/" + node.Name
	next.Spec.Taints = nil
	for _, label := range []string{
		corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone,
		corev1.LabelInstanceTypeStable, corev1.LabelInstanceType, "ccmadm.dev/rack", "ccmadm.dev/machine",
	} {
		next.Labels[label] = "some-value"
	}
	if _, err := client.CoreV1().Nodes().Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"status":{"$setElementOrder/addresses":[{"type":"InternalIP"},{"type":"Hostname"}],"addresses":[{"address":%q,"type":"InternalIP"},{"address":%q,"type":"Hostname"}]}}`,
		node.Annotations[annotationProvidedIP], node.Name)
	if _, err := client.CoreV1().Nodes().PatchStatus(ctx, node.Name, patch); err != nil {
		return err
	}
	if !withEvent {
		return nil
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: node.Name + ".1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: types.UID(node.Name)},
		Reason:         "Synced", Message: "Node synced successfully", Type: corev1.EventTypeNormal, Count: 1,
		Source: corev1.EventSource{Component: "cloud-node-controller"}, FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
	}
	_, err := client.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, event, metav1.CreateOptions{})
	return err
}
