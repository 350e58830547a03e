package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// instances answers upstream's controllers from the inventory, if there is one,
// and from what the kubelet said. It takes its surroundings as functions: the
// Nodes of the cluster, and a way to warn.
type instances struct {
	config    config.OnPremConfiguration
	nodes     func(context.Context) (cache.Indexer, error)
	warn      func(node *corev1.Node, reason, message string)
	metrics   *metrics
	machines  *machines  // nil without an inventory
	lifecycle *lifecycle // nil without an inventory

	// prepare writes what must be on a Node before upstream initializes it, and says
	// whether it had to; nil without an inventory.
	prepare func(context.Context, *corev1.Node) (bool, error)
}

var _ cloudprovider.InstancesV2 = (*instances)(nil)

// InstanceExists says no only when the inventory says so and nothing speaks
// against it, see lifecycle: on no, the lifecycle controller deletes a NotReady
// Node at once. Without an inventory it always says yes, since from its silence
// alone nobody can tell that a machine is gone.
//
// It never returns cloudprovider.InstanceNotFound, which a future controller may
// take for no (kubernetes/kubernetes#139301).
func (i *instances) InstanceExists(ctx context.Context, node *corev1.Node) (exists bool, err error) {
	if i.lifecycle == nil {
		return true, nil
	}
	defer func(start time.Time) { i.metrics.called("InstanceExists", start, err) }(time.Now())
	return i.lifecycle.exists(ctx, node)
}

// InstanceShutdown says yes only when the inventory says that the power is off, and is up to date: with the taint that follows, pods are
// started elsewhere, and volumes attached there. Of an inventory that is not it returns an error: upstream leaves the Node as it is, and
// logs and counts that it could not ask.
func (i *instances) InstanceShutdown(_ context.Context, node *corev1.Node) (off bool, err error) {
	if _, _, ours := inventory.Split(node.Spec.ProviderID); i.machines == nil || !ours {
		return false, nil
	}
	defer func(start time.Time) { i.metrics.called("InstanceShutdown", start, err) }(time.Now())
	current := i.machines.store.Current(i.config.Inventory.MaxAge.Duration) // before it is read: a newer one is current, too
	_, m, err := i.machines.find(node)
	switch {
	case err != nil || m == nil || m.Power.State != config.PowerOff:
		return false, err
	case !current:
		return false, fmt.Errorf("ask whether the machine of Node/%s is off: the inventory says so, and is not up to date", node.Name)
	}
	return true, nil
}

// InstanceMetadata returns identity, addresses and place of a machine. An error
// leaves the Node tainted, and upstream asks again. So it does after nil, which it
// takes for "not yet", once the Node has changed.
func (i *instances) InstanceMetadata(
	ctx context.Context, node *corev1.Node,
) (metadata *cloudprovider.InstanceMetadata, err error) {
	defer func(start time.Time) { i.metrics.called("InstanceMetadata", start, err) }(time.Now())
	metadata, err = i.metadata(ctx, node)
	changed := false
	if err == nil && i.prepare != nil {
		changed, err = i.prepare(ctx, node)
	}
	var f *finding.Finding
	if errors.As(err, &f) {
		i.warn(node, f.Reason, err.Error())
	}
	if i.machines != nil && uninitialized(node) {
		i.machines.hold(node, err != nil)
	}
	if err != nil || changed {
		return nil, err
	}
	return metadata, nil
}

func (i *instances) metadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	_, _, ours := inventory.Split(node.Spec.ProviderID)
	foreign := node.Spec.ProviderID != "" && !ours
	site, place := i.config.Site, config.Place{}
	var m *config.Machine
	var list *inventory.Inventory
	if i.machines != nil && (!foreign || uninitialized(node)) {
		var err error
		if list, m, err = i.machines.find(node); err != nil {
			return nil, fmt.Errorf("find the machine of Node/%s: %w", node.Name, err)
		}
		site, place = list.Metadata.Site, list.Defaults
		if foreign {
			m = nil // it is let in, and serves as another provider's
		}
	}
	addresses, err := machineAddresses(node, m, list)
	if err != nil {
		return nil, fmt.Errorf("find addresses of Node/%s: %w", node.Name, err)
	}
	metadata := &cloudprovider.InstanceMetadata{NodeAddresses: addresses}
	if metadata.ProviderID, err = i.identity(ctx, site, node, m); err != nil {
		return nil, err
	}
	switch {
	case foreign: // a machine of another provider (kwok, k3s, a cloud) stands elsewhere
	case m != nil:
		metadata.Region, metadata.Zone, metadata.InstanceType = m.Region, m.Zone, m.InstanceType
		metadata.AdditionalLabels = machineLabels(m)
	default:
		i.place(metadata, node, place)
	}
	return metadata, nil
}

// identity returns the provider ID of a Node: the one that it has, if it is no other Node's, or a new one.
func (i *instances) identity(ctx context.Context, site string, node *corev1.Node, m *config.Machine) (string, error) {
	id := node.Spec.ProviderID
	if id != "" && m == nil && !uninitialized(node) {
		return id, nil
	}
	nodes, err := i.nodes(ctx)
	switch {
	case err != nil:
		return "", err
	case m != nil:
		id = cmp.Or(id, inventory.ProviderID(site, m.ID))
		return id, i.machines.take(id, m, node, nodes)
	case id != "":
		return id, unclaimed(id, node, nodes)
	}
	return newProviderID(site, node, nodes)
}

// place says where a machine stands that is not listed: as configured, else as
// the Node is labelled, else as the inventory says of all.
func (i *instances) place(metadata *cloudprovider.InstanceMetadata, node *corev1.Node, defaults config.Place) {
	metadata.InstanceType = cmp.Or(i.config.InstanceType,
		node.Labels[corev1.LabelInstanceTypeStable], node.Labels[corev1.LabelInstanceType], defaults.InstanceType)
	metadata.Zone = cmp.Or(i.config.Zone,
		node.Labels[corev1.LabelTopologyZone], node.Labels[corev1.LabelFailureDomainBetaZone], defaults.Zone)
	metadata.Region = cmp.Or(i.config.Region,
		node.Labels[corev1.LabelTopologyRegion], node.Labels[corev1.LabelFailureDomainBetaRegion], defaults.Region)
}
