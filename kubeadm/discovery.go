package kubeadm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ccmadm/ccmadm/api/finding"
)

// fetchTimeout is for a small document.
const fetchTimeout = 10 * time.Second

// Cluster is one that a machine is about to join, found and proven as `kubeadm join` does it.
type Cluster struct {
	// Client has the permissions of the bootstrap token, or of the discovery file.
	Client kubernetes.Interface
	// CA is the cluster's, as PEM.
	CA []byte
	// Server is the control-plane endpoint, as URL.
	Server string
}

// Discover finds the cluster that the file names. With a bootstrap token it waits up to [DiscoveryTimeout] for the token's signature, and
// calls waits at each look in vain, with the time left and the reason.
func Discover(ctx context.Context, f *File, waits func(left time.Duration, why error)) (*Cluster, error) {
	if f.DiscoveryFile() != "" {
		return discoverByFile(ctx, f)
	}
	boot := f.BootstrapDiscovery()
	ca, server, err := clusterInfo(ctx, boot, waits)
	if err != nil {
		return nil, err
	}
	config := &rest.Config{
		Host: server, BearerToken: cmp.Or(f.TLSBootstrapToken(), boot.Token), TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	}
	client, err := newClient(config)
	return &Cluster{client, ca, server}, err
}

func discoverByFile(ctx context.Context, f *File) (*Cluster, error) {
	config, err := discoveryConfig(ctx, f.DiscoveryFile())
	if err != nil {
		return nil, err
	}
	if config.BearerToken == "" && len(config.CertData) == 0 && config.CertFile == "" {
		config.BearerToken = f.TLSBootstrapToken()
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, finding.Preflightf("load discovery file %s: %w", f.DiscoveryFile(), err)
	}
	client, err := newClient(config)
	return &Cluster{client, config.CAData, config.Host}, err
}

// JoinServer is the API server of the cluster to be joined, as host:port, whatever way there is to find it.
func JoinServer(ctx context.Context, f *File) (string, error) {
	if f.DiscoveryFile() == "" {
		return f.JoinEndpoint(), nil
	}
	config, err := discoveryConfig(ctx, f.DiscoveryFile())
	if err != nil {
		return "", err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return "", finding.Preflightf("load discovery file %s: %w", f.DiscoveryFile(), err)
	}
	if server.Port() == "" {
		return net.JoinHostPort(server.Hostname(), "443"), nil
	}
	return server.Host, nil
}

// discoveryConfig reads the kubeconfig, which may be the address of one, as for kubeadm (discovery/https).
func discoveryConfig(ctx context.Context, path string) (*rest.Config, error) {
	if !strings.HasPrefix(path, "https://") {
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, finding.Preflightf("load discovery file: %w", err)
		}
		return config, nil
	}
	data, err := fetch(ctx, path)
	if err != nil {
		return nil, finding.Preflightf("load discovery file %s: %w", path, err).
			WithHint("kubeadm asks the same address; its certificate must be of an authority that this machine trusts")
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return nil, finding.Preflightf("load discovery file %s: %w", path, err)
	}
	return config, nil
}

// fetch downloads a small document.
func fetch(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read from
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	const enough = 1 << 20
	return io.ReadAll(io.LimitReader(resp.Body, enough))
}

func newClient(config *rest.Config) (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return client, nil
}
