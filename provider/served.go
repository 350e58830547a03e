package provider

import (
	"errors"
	"fmt"
	"net/netip"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/ccmadm/ccmadm/provider/serving"
)

// ApproveServingCertificates has the serving certificates of kubelets approved; --approve-serving-certificates asks for
// it. It comes before Initialize.
func (c *Cloud) ApproveServingCertificates(ranges []netip.Prefix) {
	c.approves, c.ranges = true, ranges
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
	approver, err := serving.New(serving.Settings{
		Client: client, Nodes: factory.Core().V1().Nodes().Informer(), Prover: served,
		Ranges: c.ranges, Endpoint: endpoint, Recorder: recorder,
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
