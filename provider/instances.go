package provider

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/ccmadm/ccmadm/provider/inventory"
)

// instances answers upstream's controllers from what the kubelet said. It takes
// its surroundings as functions: the Nodes of the cluster, and a way to warn.
type instances struct {
	config Configuration
	nodes  func(context.Context) (cache.Indexer, error)
	warn   func(node *corev1.Node, reason, message string)
}

var _ cloudprovider.InstancesV2 = (*instances)(nil)

// InstanceExists always says yes: on no, the lifecycle controller deletes a
// NotReady Node at once, and from its silence alone nobody can tell that a
// machine is gone.
func (i *instances) InstanceExists(context.Context, *corev1.Node) (bool, error) {
	return true, nil
}

// InstanceShutdown always says no, as power is not looked at.
func (i *instances) InstanceShutdown(context.Context, *corev1.Node) (bool, error) {
	return false, nil
}

// InstanceMetadata returns identity, addresses and place of a machine. An error
// leaves the Node tainted, and upstream asks again.
func (i *instances) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	addresses, err := nodeAddresses(node)
	if err != nil {
		i.warn(node, "NoAddress", err.Error())
		return nil, fmt.Errorf("find addresses of Node/%s: %w", node.Name, err)
	}
	metadata := &cloudprovider.InstanceMetadata{ProviderID: node.Spec.ProviderID, NodeAddresses: addresses}
	if metadata.ProviderID == "" {
		nodes, err := i.nodes(ctx)
		if err != nil {
			return nil, err
		}
		if metadata.ProviderID, err = newProviderID(i.config.Site, node, nodes); err != nil {
			return nil, err
		}
	}
	// A machine of another provider (kwok, k3s, a cloud) stands elsewhere.
	if _, _, ours := inventory.Split(metadata.ProviderID); !ours {
		return metadata, nil
	}
	metadata.InstanceType = cmp.Or(i.config.InstanceType,
		node.Labels[corev1.LabelInstanceTypeStable], node.Labels[corev1.LabelInstanceType])
	metadata.Zone = cmp.Or(i.config.Zone,
		node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelFailureDomainBetaZone])
	metadata.Region = cmp.Or(i.config.Region,
		node.Labels[corev1.LabelTopologyRegion], node.Labels[corev1.LabelFailureDomainBetaRegion])
	return metadata, nil
}
