package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/yaml"
)

// providerName is what --cloud-provider says, and the scheme of provider IDs: never change it.
const providerName = "example"

// cloud is the provider. It has instances, and nothing else: see the roles at the end.
type cloud struct {
	URL string `json:"url"`
}

// newCloud reads YAML like "url: https://cloud.example.org/project-1".
func newCloud(file io.Reader) (cloudprovider.Interface, error) {
	if file == nil {
		return nil, errors.New("read cloud config: want --cloud-config")
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read cloud config: %w", err)
	}
	c := &cloud{}
	if err := yaml.UnmarshalStrict(content, c); err != nil {
		return nil, fmt.Errorf("decode cloud config: %w", err)
	}
	if _, err := url.ParseRequestURI(c.URL); err != nil {
		return nil, fmt.Errorf("validate cloud config: url: %w", err)
	}
	return c, nil
}

// machine is what the cloud tells.
type machine struct {
	ID, Zone, Type string
	IPs            []string
	Off            bool
}

// errGone is the cloud's word, 410, that it looked for a machine where machines are and found none.
var errGone = errors.New("the cloud has no such machine")

// find asks by provider ID, which stays, and by name only while a Node has none.
func (c *cloud) find(ctx context.Context, node *corev1.Node) (*machine, error) {
	path := "/by-name/" + url.PathEscape(node.Name)
	if id := node.Spec.ProviderID; id != "" {
		ours, ok := strings.CutPrefix(id, providerName+"://")
		if !ok {
			return nil, fmt.Errorf("find machine of Node/%s: provider ID %q is not ours", node.Name, id)
		}
		path = "/by-id/" + url.PathEscape(ours)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
		m := &machine{}
		return m, json.NewDecoder(response.Body).Decode(m)
	case http.StatusGone:
		return nil, errGone
	}
	return nil, fmt.Errorf("find machine of Node/%s: the cloud answers %s", node.Name, response.Status)
}

// InstanceExists says no to one answer only, and never about a Node that was not initialized: its machine may be new.
func (c *cloud) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	if node.Spec.ProviderID == "" {
		return true, nil
	}
	_, err := c.find(ctx, node)
	if errors.Is(err, errGone) {
		return false, nil
	}
	return true, err
}

// InstanceShutdown says what the cloud says about power.
func (c *cloud) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	m, err := c.find(ctx, node)
	return err == nil && m.Off, err
}

// InstanceMetadata describes the machine. An error, also for one that is not there yet, is retried; (nil, nil) is not.
func (c *cloud) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	m, err := c.find(ctx, node)
	if err != nil {
		return nil, err
	}
	metadata := &cloudprovider.InstanceMetadata{
		ProviderID: providerName + "://" + m.ID, InstanceType: m.Type,
		Zone: m.Zone,
	}
	for _, ip := range m.IPs {
		metadata.NodeAddresses = append(metadata.NodeAddresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return metadata, nil
}

func (c *cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return c, true }
func (c *cloud) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return nil, false }
func (c *cloud) Routes() (cloudprovider.Routes, bool)                              { return nil, false }
func (c *cloud) Zones() (cloudprovider.Zones, bool)                                { return nil, false }
func (c *cloud) Clusters() (cloudprovider.Clusters, bool)                          { return nil, false }
func (c *cloud) ProviderName() string                                              { return providerName }
func (c *cloud) HasClusterID() bool                                                { return true }
