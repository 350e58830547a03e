package nodes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/ccmadm/ccmadm/provider/inventory"
)

// Legacy serves the interfaces that InstancesV2 replaced, from the same answers:
// upstream's own controllers do not ask them, others may.
//
// None of its methods returns cloudprovider.InstanceNotFound: a caller of these
// interfaces deletes the Node then, with none of the rules of the lifecycle.
type Legacy struct {
	// Ready returns who answers, or why nobody does yet.
	Ready func() (*Nodes, error)
	// Server is the API server's address.
	Server func() string
}

var (
	_ cloudprovider.Instances = (*Legacy)(nil)
	_ cloudprovider.Zones     = (*Legacy)(nil)
	_ cloudprovider.Clusters  = (*Legacy)(nil)
)

// NodeAddresses returns the addresses of the Node of that name.
func (l *Legacy) NodeAddresses(ctx context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	m, err := l.byName(ctx, name)
	if err != nil {
		return nil, err
	}
	return m.NodeAddresses, nil
}

// NodeAddressesByProviderID returns the addresses of the Node of that machine.
func (l *Legacy) NodeAddressesByProviderID(ctx context.Context, id string) ([]corev1.NodeAddress, error) {
	m, err := l.byProviderID(ctx, id)
	if err != nil {
		return nil, err
	}
	return m.NodeAddresses, nil
}

// InstanceID returns what follows onprem:// in the provider ID.
func (l *Legacy) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	m, err := l.byName(ctx, name)
	if err != nil {
		return "", err
	}
	site, id, ours := inventory.Split(m.ProviderID)
	if !ours {
		return "", fmt.Errorf("find the instance of Node/%s: %s is that of another provider", name, m.ProviderID)
	}
	return site + "/" + id, nil
}

// InstanceType returns the type of the Node of that name.
func (l *Legacy) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	m, err := l.byName(ctx, name)
	if err != nil {
		return "", err
	}
	return m.InstanceType, nil
}

// InstanceTypeByProviderID returns the type of that machine.
func (l *Legacy) InstanceTypeByProviderID(ctx context.Context, id string) (string, error) {
	m, err := l.byProviderID(ctx, id)
	if err != nil {
		return "", err
	}
	return m.InstanceType, nil
}

// AddSSHKeyToAllInstances is not served.
func (l *Legacy) AddSSHKeyToAllInstances(context.Context, string, []byte) error {
	return cloudprovider.NotImplemented
}

// CurrentNodeName is the host name, since nothing here knows a better one.
func (l *Legacy) CurrentNodeName(_ context.Context, hostname string) (types.NodeName, error) {
	return types.NodeName(hostname), nil
}

// InstanceExistsByProviderID answers as InstanceExists does.
func (l *Legacy) InstanceExistsByProviderID(ctx context.Context, id string) (bool, error) {
	nodes, node, err := l.byID(ctx, id)
	if err != nil {
		return true, err
	}
	return nodes.InstanceExists(ctx, node)
}

// InstanceShutdownByProviderID answers as InstanceShutdown does.
func (l *Legacy) InstanceShutdownByProviderID(ctx context.Context, id string) (bool, error) {
	nodes, node, err := l.byID(ctx, id)
	if err != nil {
		return false, err
	}
	return nodes.InstanceShutdown(ctx, node)
}

// GetZone is of no use: where this process runs says nothing about a Node.
func (l *Legacy) GetZone(context.Context) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{}, cloudprovider.NotImplemented
}

// GetZoneByProviderID returns zone and region of that machine.
func (l *Legacy) GetZoneByProviderID(ctx context.Context, id string) (cloudprovider.Zone, error) {
	return zone(l.byProviderID(ctx, id))
}

// GetZoneByNodeName returns zone and region of the Node of that name.
func (l *Legacy) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return zone(l.byName(ctx, name))
}

func zone(m *cloudprovider.InstanceMetadata, err error) (cloudprovider.Zone, error) {
	if err != nil {
		return cloudprovider.Zone{}, err
	}
	return cloudprovider.Zone{FailureDomain: m.Zone, Region: m.Region}, nil
}

// ListClusters returns the site: one provider serves one cluster.
func (l *Legacy) ListClusters(context.Context) ([]string, error) {
	nodes, err := l.Ready()
	if err != nil {
		return nil, err
	}
	return []string{nodes.Site()}, nil
}

// Master returns where the API server is.
func (l *Legacy) Master(_ context.Context, cluster string) (string, error) {
	nodes, err := l.Ready()
	if err != nil {
		return "", err
	}
	if site := nodes.Site(); cluster != site {
		return "", fmt.Errorf("find the API server of %q: this is %q", cluster, site)
	}
	return l.Server(), nil
}

func (l *Legacy) byName(ctx context.Context, name types.NodeName) (*cloudprovider.InstanceMetadata, error) {
	nodes, err := l.Ready()
	if err != nil {
		return nil, err
	}
	index, err := nodes.nodes(ctx)
	if err != nil {
		return nil, err
	}
	object, _, err := index.GetByKey(string(name))
	if err != nil {
		return nil, err
	}
	node, ok := object.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("find Node/%s: there is none", name)
	}
	return nodes.InstanceMetadata(ctx, node)
}

func (l *Legacy) byProviderID(ctx context.Context, id string) (*cloudprovider.InstanceMetadata, error) {
	nodes, node, err := l.byID(ctx, id)
	if err != nil {
		return nil, err
	}
	return nodes.InstanceMetadata(ctx, node)
}

// byID returns the only Node with that provider ID, and who answers for it.
func (l *Legacy) byID(ctx context.Context, id string) (*Nodes, *corev1.Node, error) {
	nodes, err := l.Ready()
	if err != nil {
		return nil, nil, err
	}
	index, err := nodes.nodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, err := index.ByIndex(identityIndex, id)
	if err != nil {
		return nil, nil, err
	}
	if len(found) != 1 {
		return nil, nil, fmt.Errorf("find the Node of machine %q: there are %d", id, len(found))
	}
	node, ok := found[0].(*corev1.Node)
	if !ok || node.Spec.ProviderID != id {
		return nil, nil, fmt.Errorf("find the Node of machine %q: there is none", id)
	}
	return nodes, node, nil
}
