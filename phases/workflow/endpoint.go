package workflow

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// ControlPlaneEndpoint is where pods of ours and other machines reach the API server: kubeadm's controlPlaneEndpoint where the cluster
// has one, and else the server of the administrator's kubeconfig, into which kubeadm writes this machine's. That file and --kubeconfig
// alone would not do, since their server may be a tunnel or this machine's own. The service's virtual address would need kube-proxy
// first. A dry run before there is a cluster knows only this machine's.
func ControlPlaneEndpoint(ctx context.Context, h *Host) (string, error) {
	server, err := ControlPlaneURL(KubeconfigPath(h.Env, machine.AdminConf))
	if err != nil && h.DryRun {
		return LocalServer(h), nil
	}
	if err != nil {
		return "", err
	}
	said, err := liveEndpoint(ctx, h.Env)
	if err != nil {
		return "", fmt.Errorf("find the control-plane endpoint: %w", err)
	}
	if said != "" {
		return endpointURL(said, LocalServer(h)), nil
	}
	if own, err := ControlPlaneURL(h.Machine.Path(machine.AdminConf)); err == nil {
		server = own // that of --kubeconfig may be a tunnel
	}
	if !onlyHere(server) {
		return server, nil
	}
	if local := LocalServer(h); !onlyHere(local) {
		return local, nil
	}
	return "", finding.Refusedf("find the control-plane endpoint: the cluster has no controlPlaneEndpoint, and %s has the server %s, "+
		"which other machines cannot reach", machine.AdminConf, server).
		WithHint("put an address of this machine there, or controlPlaneEndpoint into ConfigMap/kube-system/%s", KubeadmConfigName)
}

// liveEndpoint is kubeadm's controlPlaneEndpoint; empty: the cluster has none, or is not kubeadm's.
func liveEndpoint(ctx context.Context, env *Env) (string, error) {
	client, err := Connect(env, machine.AdminConf)
	if err != nil {
		return "", err
	}
	var file *kubeadm.File
	ask := func(ctx context.Context) error {
		file, err = LiveKubeadm(ctx, client)
		return err
	}
	if env.DryRun && !env.Existing && !env.Preview { // of init, whose first control plane may not be up yet
		if err = ask(ctx); utilnet.IsConnectionRefused(err) {
			return "", nil
		}
	} else {
		err = journal.Ask(ctx, ask)
	}
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return file.ControlPlaneEndpoint(), nil
}

// endpointURL follows kubeadm: without a port, that of this machine's API server is meant.
func endpointURL(endpoint, local string) string {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		host = endpoint
	}
	if port == "" {
		if u, err := url.Parse(local); err == nil {
			port = u.Port()
		}
	}
	return "https://" + net.JoinHostPort(host, cmp.Or(port, strconv.Itoa(kubeadm.DefaultBindPort)))
}

// onlyHere tells whether a server has no address, or one that means each machine itself.
func onlyHere(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false // what uses it says so
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "" || u.Hostname() == "localhost" || err == nil && (addr.IsLoopback() || addr.IsUnspecified())
}
