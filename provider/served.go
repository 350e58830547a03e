package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/ccmadm/ccmadm/provider/serving"
)

// ApproveServingCertificates has the serving certificates of kubelets approved; --approve-serving-certificates asks for
// it. It comes before Initialize.
func (c *Cloud) ApproveServingCertificates(ranges []netip.Prefix, names serving.Names) {
	c.approves, c.ranges, c.names = true, ranges, names
}

// connectServing starts what approves them, in the leader. Its client is its own: kubelets decide how often they ask,
// and the initialization of Nodes does not wait for that.
func (c *Cloud) connectServing(factory informers.SharedInformerFactory, recorder record.EventRecorder) error {
	served := c.nodes.Load()
	if served == nil {
		return errors.New("approve serving certificates: no Node is served")
	}
	endpoint, err := EndpointOf(c.cluster.config)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.cluster.config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	presented, err := APIServerNames(c.cluster.config)
	if err != nil {
		return err
	}
	approver, err := serving.New(serving.Settings{
		Client: client, Nodes: factory.Core().V1().Nodes().Informer(), Prover: served,
		Ranges: c.ranges, Names: c.names, Endpoint: endpoint, APIServerNames: presented, Recorder: recorder,
	})
	if err != nil {
		return err
	}
	go approver.Run(c.cluster.ctx)
	return nil
}

// EndpointOf is the host at which the API server is reached.
func EndpointOf(config *rest.Config) (string, error) {
	u, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", fmt.Errorf("read the API server's address: %w", err)
	}
	return u.Hostname(), nil
}

// APIServerNames returns a function that reads the names and addresses in the certificate which the API server presents. It asks
// for /version by HTTP, so that a proxy on the way is used as by all other requests.
func APIServerNames(config *rest.Config) (func(context.Context) ([]string, error), error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return func(ctx context.Context) ([]string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("version").String(), http.NoBody)
		if err != nil {
			return nil, err
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		if response.TLS == nil || len(response.TLS.PeerCertificates) == 0 {
			return nil, nil // plain HTTP: there is no certificate
		}
		served := response.TLS.PeerCertificates[0]
		names := slices.Clone(served.DNSNames)
		for _, ip := range served.IPAddresses {
			names = append(names, ip.String())
		}
		return names, nil
	}, nil
}
