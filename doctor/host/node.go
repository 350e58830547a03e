package host

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/doctor/probe"
	"github.com/ccmadm/ccmadm/machine"
)

// registered asks the API server for the Node of this machine's kubelet, in its name: it may read its own and no other,
// and is told when there is none. A kubelet whose Node was deleted renews no Lease, and in the cluster nothing tells of
// it; nor of one whose credentials are refused, or that refuses the API server's certificate.
func (h *looking) registered(ctx context.Context) error {
	if h.young {
		return nil
	}
	client, name, err := h.asKubelet()
	if client == nil || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	seen := &diagnosis.HostNode{Name: name, Missing: apierrors.IsNotFound(err), Ready: err == nil && nodestatus.IsReady(node)}
	if err == nil {
		seen.PodCIDRs, h.node = node.Spec.PodCIDRs, node
		seen.ThisBoot, seen.Foreign = h.writes(ctx, client, node, name)
	}
	if err != nil && !seen.Missing {
		err = fmt.Errorf("get Node/%s as its kubelet: %w", name, err)
		if seen.Next = h.accepted(err, name); seen.Next == "" {
			return err
		}
		seen.Rejected = finding.Clean(redact.Text(err.Error()))
	}
	h.seen.Registered = seen
	return nil
}

// accepted is what makes the API server and the kubelet of a Node accept each other; empty where the error is another one.
func (h *looking) accepted(err error, node string) string {
	const onControlPlane = "on a control plane: "
	switch {
	case apierrors.IsForbidden(err):
		return onControlPlane + "kubectl auth can-i get nodes/" + node + " --as " + v1alpha1.NodeUserPrefix + node +
			" --as-group system:nodes; grep authorization-mode " + machine.ManifestDir + "/kube-apiserver.yaml"
	case errors.As(err, new(x509.HostnameError)):
		return "add the name or address to apiServer.certSANs of ConfigMap/kube-system/kubeadm-config, then on each control plane (one without " +
			"the CA's ca.key needs a certificate that the CA's owner signs): " + components.NewServerCertificate
	case errors.As(err, new(x509.CertificateInvalidError)):
		return "timedatectl; " + onControlPlane + "kubeadm certs check-expiration"
	case apierrors.IsUnauthorized(err), probe.KindOf(err) == probe.BadCertificate:
		return h.newKubeletConf(node)
	}
	return ""
}

// registersNothing tells of a kubelet that was told to make no Node.
func (h *looking) registersNothing() bool {
	return !h.switched("register-node", h.kubelet.RegisterNode)
}

// rotates tells whether the kubelet renews its own certificate, as kubeadm sets it up.
func (h *looking) rotates() bool { return h.switched("rotate-certificates", h.kubelet.Rotates) }

// switched tells whether something is on that is unless the kubelet's configuration says otherwise, or a flag, which wins.
func (h *looking) switched(flag string, configured *bool) bool {
	at := slices.IndexFunc(h.seen.Flags, func(f diagnosis.HostFlag) bool { return f.Name == flag })
	if at >= 0 && h.seen.Flags[at].Runs {
		return h.seen.Flags[at].Value != "false"
	}
	return ptr.Deref(configured, true)
}

// startedLately compares the time of a start, in microseconds since the machine's, with now.
func (h *looking) startedLately(monotonic string, within time.Duration) bool {
	started, err := strconv.ParseInt(monotonic, 10, 64)
	if err != nil {
		return false
	}
	up, err := h.uptime()
	return err == nil && up-time.Duration(started)*time.Microsecond < within
}

// uptime is for how long the machine has run.
func (h *looking) uptime() (time.Duration, error) {
	data, err := h.Read("/proc/uptime")
	if err != nil {
		return 0, err
	}
	text, _, _ := strings.Cut(string(data), " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("read the time since the machine was booted: %w", err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
