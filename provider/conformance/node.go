package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodeutil "k8s.io/component-helpers/node/util"
)

// machine makes the next machine in the cloud.
func (b *bed) machine() (Machine, error) {
	m := b.plan()
	return m, b.add(m)
}

// plan describes the next machine, and leaves the cloud as it is.
func (b *bed) plan() Machine {
	b.machines++
	return Machine{
		Name: fmt.Sprintf("machine-%d", b.machines),
		UUID: string(uuid.NewUUID()),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("198.18.0.%d", b.machines)},
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("fd00::%d", b.machines)},
		},
	}
}

func (b *bed) add(m Machine) error {
	if b.cloud.Add == nil {
		return nil
	}
	if err := b.cloud.Add(m); err != nil {
		return fmt.Errorf("add machine %s: %w", m.Name, err)
	}
	return nil
}

// join makes the Node that the machine's kubelet would with --cloud-provider=external and, if it is not empty,
// --node-ip. It is Ready, which keeps the lifecycle controller away.
func (b *bed) join(ctx context.Context, m Machine, nodeIP string, edit ...func(*corev1.Node)) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: map[string]string{corev1.LabelHostname: m.Name}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
			Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule,
		}}},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{m.Addresses[0], {Type: corev1.NodeHostName, Address: m.Name}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
			NodeInfo:   corev1.NodeSystemInfo{SystemUUID: m.UUID, MachineID: strings.ReplaceAll(m.UUID, "-", "")},
		},
	}
	if nodeIP != "" {
		node.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: nodeIP}
	}
	for _, e := range edit {
		e(node)
	}
	if _, err := b.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create Node/%s: %w", m.Name, err)
	}
	return nil
}

// joined makes a machine and its Node, and waits until it is initialized.
func (b *bed) joined(ctx context.Context) (Machine, error) {
	m, err := b.machine()
	if err != nil {
		return m, err
	}
	if err := b.join(ctx, m, ""); err != nil {
		return m, err
	}
	_, err = b.initialized(ctx, m)
	return m, err
}

// initialized waits until the Node has no taint and a provider ID, and returns it.
func (b *bed) initialized(ctx context.Context, m Machine) (node *corev1.Node, err error) {
	err = b.until(ctx, fmt.Sprintf("Node/%s is initialized", m.Name), func(ctx context.Context) (err error) {
		node, err = b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case tainted(node, cloudproviderapi.TaintExternalCloudProvider):
			return errors.New("it has the taint " + cloudproviderapi.TaintExternalCloudProvider)
		case node.Spec.ProviderID == "":
			return errors.New("it has no provider ID")
		}
		return nil
	})
	return node, err
}

// says sets the Ready condition, as the kubelet does, or, with Unknown, whoever misses it.
func (b *bed) says(m Machine, ready corev1.ConditionStatus) error {
	condition := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: ready, Reason: "Conformance",
		LastHeartbeatTime: metav1.Now(),
	}
	if err := nodeutil.SetNodeCondition(b.client, nodeName(m), condition); err != nil {
		return fmt.Errorf("set condition Ready of Node/%s: %w", m.Name, err)
	}
	return nil
}

// there is an error if the machine's Node is not.
func (b *bed) there(ctx context.Context, m Machine) error {
	_, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the lifecycle controller deleted Node/%s", m.Name)
	}
	return err
}

// gone waits until the machine's Node is deleted.
func (b *bed) gone(ctx context.Context, m Machine) error {
	return b.until(ctx, fmt.Sprintf("Node/%s is deleted", m.Name), func(ctx context.Context) error {
		_, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = errors.New("it is there")
		}
		return err
	})
}

func (b *bed) removeNodes(ctx context.Context) error {
	return b.client.CoreV1().Nodes().DeleteCollection(context.WithoutCancel(ctx), metav1.DeleteOptions{},
		metav1.ListOptions{})
}
