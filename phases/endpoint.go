package phases

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// controlPlaneEndpoint is where pods of ours and further machines reach the API server; the service's virtual address
// would need kube-proxy first. A cluster that lives may have come to it after this machine's kubeconfig was written,
// which kubeadm does not change. A dry run before there is a cluster knows only this machine's server.
func controlPlaneEndpoint(ctx context.Context, d *Data) (string, error) {
	server, err := controlPlaneURL(kubeconfigPath(d, machine.AdminConf))
	if err != nil && d.DryRun {
		return localServer(d), nil
	}
	if err != nil {
		return "", err
	}
	if done, err := finished(d); err != nil || !done && !d.Living {
		return server, err
	}
	live, err := liveEndpoint(ctx, d)
	if err != nil {
		return "", err
	}
	return cmp.Or(live, server), nil
}

// liveEndpoint is that of kubeadm's live configuration; empty: it has none. An API server that restarts is asked again.
func liveEndpoint(ctx context.Context, d *Data) (string, error) {
	client, err := connect(d, machine.AdminConf)
	if err != nil {
		return "", err
	}
	var live *kubeadm.File
	err = journal.Ask(ctx, func(ctx context.Context) (err error) {
		live, err = liveKubeadm(ctx, client)
		return err
	})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", finding.Refusedf("ask for the control-plane endpoint: %w", err).
			WithHint("the same command again, once the API server answers")
	}
	endpoint := live.ControlPlaneEndpoint()
	if endpoint == "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil { // a host alone: kubeadm adds the port of this machine's API server
		local, err := url.Parse(localServer(d))
		if err != nil {
			return "", fmt.Errorf("find the port of the control-plane endpoint: %w", err)
		}
		host, port = endpoint, local.Port()
	}
	return "https://" + net.JoinHostPort(host, port), nil
}
