package conformance

import (
	"context"
	"fmt"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

func metadataIsIdempotent(ctx context.Context, b *bed) error {
	m, err := b.joined(ctx)
	if err != nil {
		return err
	}
	first, _, err := b.ask(ctx, m)
	if err != nil {
		return err
	}
	second, _, err := b.ask(ctx, m)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(first, second); diff != "" {
		return fmt.Errorf("InstanceMetadata of Node/%s: %w, -first +second:\n%s", m.Name, errUnlike, diff)
	}
	return nil
}

// metadataIsNotNil looks at an initialized Node in good times and, where they can be had, after its machine has gone
// and during a fault.
func metadataIsNotNil(ctx context.Context, b *bed) error {
	m, err := b.joined(ctx)
	if err != nil {
		return err
	}
	b.settleMetadata(ctx, m.Name)
	if heal, err := b.anyFault(); err == nil {
		b.settleMetadata(ctx, m.Name)
		heal()
	}
	if b.cloud.Remove != nil {
		if err := b.cloud.Remove(m); err != nil {
			return err
		}
		b.settleMetadata(ctx, m.Name)
	}
	b.seen.mu.Lock()
	defer b.seen.mu.Unlock()
	return b.seen.nilMeta
}

func providerIDIsUnique(ctx context.Context, b *bed) error {
	holders := map[string]string{}
	for range 3 {
		m, err := b.joined(ctx)
		if err != nil {
			return err
		}
		node, err := b.initialized(ctx, m)
		if err != nil {
			return err
		}
		if other, ok := holders[node.Spec.ProviderID]; ok {
			return fmt.Errorf("provider ID %q is that of Node/%s and of Node/%s", node.Spec.ProviderID, other, m.Name)
		}
		holders[node.Spec.ProviderID] = m.Name
	}
	return nil
}

// providerIDStays asks about a Node that is initialized, and again once it is initialized for the second time.
func providerIDStays(ctx context.Context, b *bed) error {
	m, err := b.joined(ctx)
	if err != nil {
		return err
	}
	same := func() error { return b.keepsID(ctx, m) }
	return firstOf(same, func() error { return b.taint(ctx, m) }, func() error {
		_, err := b.initialized(ctx, m)
		return err
	}, same)
}

// keepsID wants the provider to say the provider ID that the Node has.
func (b *bed) keepsID(ctx context.Context, m Machine) error {
	metadata, node, err := b.ask(ctx, m)
	if err != nil {
		return err
	}
	// Upstream takes none for the one that the Node has.
	if metadata.ProviderID != "" && metadata.ProviderID != node.Spec.ProviderID {
		return fmt.Errorf("the provider ID of Node/%s is %q, and InstanceMetadata says "+
			"%q", m.Name, node.Spec.ProviderID, metadata.ProviderID)
	}
	return nil
}

// taint makes the Node wait for its initialization once more.
func (b *bed) taint(ctx context.Context, m Machine) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule,
		})
		_, err = b.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}

// objectsAreNotWrittenTo lets both controllers ask about a Node.
func objectsAreNotWrittenTo(ctx context.Context, b *bed) error {
	m, err := b.joined(ctx)
	if err != nil {
		return err
	}
	if err := b.says(m, corev1.ConditionUnknown); err != nil {
		return err
	}
	b.settleLifecycle(ctx, m.Name)
	b.settleMetadata(ctx, m.Name)
	return b.seen.written()
}

// ask asks the provider itself about the Node, as it is in the cluster.
func (b *bed) ask(ctx context.Context, m Machine) (*cloudprovider.InstanceMetadata, *corev1.Node, error) {
	node, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	instances, _ := b.seen.InstancesV2()
	metadata, err := instances.InstanceMetadata(ctx, node)
	if err == nil && metadata == nil {
		err = fmt.Errorf("InstanceMetadata of Node/%s is nil", m.Name)
	}
	return metadata, node, err
}
