// Command ccm-sample is the sample of k8s.io/kubernetes/cmd/cloud-controller-manager with a cloud in it.
//
// Upstream's program knows no cloud: each author is to copy it and to write a providers.go. This is that file; the
// lab puts upstream's other files beside it when it builds the program, so that nothing of them is copied here.
//
// Reads: the file of --cloud-config, again at each question. Writes: nothing. It has nodes, and nothing else.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

const provider = "sample"

// Upstream's registry is filled by side effect, before main runs.
func init() {
	cloudprovider.RegisterCloudProvider(provider, func(config io.Reader) (cloudprovider.Interface, error) {
		file, ok := config.(*os.File)
		if !ok {
			return nil, errors.New("sample provider: --cloud-config is missing")
		}
		return &cloud{file: file.Name()}, nil
	})
}

// cloud answers from a file with a JSON object of instances by node name.
type cloud struct{ file string }

type instance struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Zone    string `json:"zone"`
	Region  string `json:"region"`
	Address string `json:"address"`
}

var _ cloudprovider.InstancesV2 = (*cloud)(nil)

// InstanceExists is false only for a node that a readable file does not have.
func (c *cloud) InstanceExists(_ context.Context, node *corev1.Node) (bool, error) {
	_, err := c.find(node)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	return err == nil, err
}

// InstanceShutdown is always false: a file says nothing about power.
func (c *cloud) InstanceShutdown(_ context.Context, node *corev1.Node) (bool, error) {
	_, err := c.find(node)
	return false, err
}

// InstanceMetadata is what the file says.
func (c *cloud) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	i, err := c.find(node)
	if err != nil {
		return nil, err
	}
	id := i.ID
	if !strings.Contains(id, "://") { // else the cluster has had another provider, and IDs do not change
		id = provider + "://" + id
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID: id, InstanceType: i.Type, Zone: i.Zone, Region: i.Region,
		NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: i.Address}},
	}, nil
}

func (c *cloud) find(node *corev1.Node) (instance, error) {
	data, err := os.ReadFile(c.file)
	if err != nil {
		return instance{}, err
	}
	instances := map[string]instance{}
	if err := json.Unmarshal(data, &instances); err != nil {
		return instance{}, fmt.Errorf("read %s: %w", c.file, err)
	}
	i, ok := instances[node.Name]
	if !ok {
		return instance{}, cloudprovider.InstanceNotFound
	}
	return i, nil
}

var _ cloudprovider.Interface = (*cloud)(nil)

// Initialize has nothing to start.
func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// InstancesV2 is all there is.
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c, true }

// Instances is the interface before InstancesV2.
func (c *cloud) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones are part of InstancesV2.
func (c *cloud) Zones() (cloudprovider.Zones, bool) { return nil, false }

// LoadBalancer says that there is none.
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return nil, false }

// Clusters says that there are none.
func (c *cloud) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes says that there are none.
func (c *cloud) Routes() (cloudprovider.Routes, bool) { return nil, false }

// ProviderName is the value of --cloud-provider.
func (c *cloud) ProviderName() string { return provider }

// HasClusterID spares --allow-untagged-cloud.
func (c *cloud) HasClusterID() bool { return true }
