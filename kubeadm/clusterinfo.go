package kubeadm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"github.com/ccmadm/ccmadm/api/finding"
)

// A token that was made just now is signed by the controller manager. kubeadm waits five minutes for it, and a mistyped
// token then looks like a slow cluster.
const (
	// signatureTimeout is how long that may take where the controller manager has signed others.
	signatureTimeout = 15 * time.Second
	// DiscoveryTimeout is how long it may take where it has signed none, as one that has not started yet. On two busy processors that took
	// over a minute. All tokens may also have expired, so that it is less than kubeadm's five minutes.
	DiscoveryTimeout = 3 * time.Minute
)

// clusterInfo fetches the cluster's CA and endpoint as `kubeadm join` does: without trust, then checked against the
// token's signature and the pinned CA hash.
func clusterInfo(ctx context.Context, boot BootstrapDiscovery, waits func(time.Duration, error)) (ca []byte, server string, err error) {
	id, secret, ok := strings.Cut(boot.Token, ".")
	if !ok {
		return nil, "", finding.Usagef("read the bootstrap token: want the form abcdef.0123456789abcdef")
	}
	info, err := fetchClusterInfo(ctx, boot, id, waits)
	if err != nil {
		return nil, "", err
	}
	text := info.Data[bootstrapapi.KubeConfigKey]
	signature, signed := info.Data[bootstrapapi.JWSSignatureKeyPrefix+id]
	if !signed || !jws.DetachedTokenIsValid(signature, text, id, secret) {
		return nil, "", tokenError(boot.Endpoint, id, info.Data)
	}
	config, err := clientcmd.Load([]byte(text))
	if err != nil {
		return nil, "", fmt.Errorf("read ConfigMap/kube-public/cluster-info: %w", err)
	}
	for _, cluster := range config.Clusters {
		if err := checkPins(cluster.CertificateAuthorityData, boot); err != nil {
			return nil, "", err
		}
		return cluster.CertificateAuthorityData, cluster.Server, nil
	}
	return nil, "", errors.New("read ConfigMap/kube-public/cluster-info: no cluster in it")
}

// fetchClusterInfo waits a while for the signature, and returns what there is after that.
func fetchClusterInfo(
	ctx context.Context, boot BootstrapDiscovery, tokenID string, waits func(time.Duration, error),
) (*corev1.ConfigMap, error) {
	endpoint := boot.Endpoint
	anonymous, err := newClient(&rest.Config{
		Host: "https://" + endpoint, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Timeout: 5 * time.Second,
		QPS: -1, // one request in 200 ms; a limiter would only put its own words before the server's
	})
	if err != nil {
		return nil, err
	}
	var info *corev1.ConfigMap
	var last error
	begun := time.Now()
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, max(boot.Timeout, DiscoveryTimeout), true, func(ctx context.Context) (bool, error) {
		cm, err := anonymous.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, bootstrapapi.ConfigMapClusterInfo, metav1.GetOptions{})
		switch {
		case err == nil:
			info, last = cm, nil // what one answer said is not undone by the next request, which the deadline may cut off
		case ctx.Err() == nil: // the end of our patience is no reason
			last = err
		}
		// Without an answer it is asked again: the API server may be restarting.
		limit, why := patience(info, tokenID)
		limit = cmp.Or(boot.Timeout, limit)
		left := limit - time.Since(begun)
		if why == nil || left <= 0 {
			return true, nil
		}
		waits(left, cmp.Or(last, why))
		return false, nil
	})
	if info != nil {
		return info, nil
	}
	if last == nil {
		last = err
	}
	if apierrors.IsForbidden(last) || apierrors.IsNotFound(last) {
		return nil, finding.Preflightf("discover the cluster at %s: %w", endpoint, last).
			WithHint("the cluster does not publish cluster-info; on a control plane: kubeadm init phase bootstrap-token")
	}
	return nil, finding.Preflightf("reach the API server at %s: %w", endpoint, last).
		WithHint("check the address, the API server, and firewalls between it and this machine. Nothing was changed")
}

// patience is how long all looks may take after one that saw info, and why another look may see more; nil: it cannot. An API server that
// has never answered, where info is nil, is not waited for as long as a signer.
func patience(info *corev1.ConfigMap, tokenID string) (time.Duration, error) {
	if info == nil {
		return signatureTimeout, errors.New("the API server has not answered")
	}
	if _, own := info.Data[bootstrapapi.JWSSignatureKeyPrefix+tokenID]; own {
		return 0, nil
	}
	if anySigned(info.Data) {
		return signatureTimeout, fmt.Errorf("bootstrap token %s is not signed, and others are", tokenID)
	}
	return DiscoveryTimeout, errors.New("the kube-controller-manager has not signed any bootstrap token")
}

func anySigned(info map[string]string) bool {
	for key := range info {
		if strings.HasPrefix(key, bootstrapapi.JWSSignatureKeyPrefix) {
			return true
		}
	}
	return false
}

func tokenError(endpoint, id string, info map[string]string) error {
	cause := "the cluster has no such token: it expired, was deleted or is mistyped"
	hint := "on a control plane: kubeadm token create, then ccmadm init phase show-join-command. Nothing was changed"
	switch _, signed := info[bootstrapapi.JWSSignatureKeyPrefix+id]; {
	case signed:
		cause = "its second half is wrong"
	case !anySigned(info):
		cause = "no token of the cluster is signed: all have expired, or the kube-controller-manager, which signs them, does not run"
		hint = "on a control plane: kubectl -n kube-system get pods -l component=kube-controller-manager, and kubeadm token list. Nothing was changed"
	}
	return finding.Preflightf("use bootstrap token %s at %s: %s", id, endpoint, cause).WithHint("%s", hint)
}

// checkPins compares the CA with the --discovery-token-ca-cert-hash values, which are of the form sha256:HEX over the
// public key (RFC 7469).
func checkPins(caData []byte, boot BootstrapDiscovery) error {
	if boot.UnsafeSkipCAVerification {
		return nil
	}
	certs, err := certutil.ParseCertsPEM(caData)
	if err != nil {
		return fmt.Errorf("read the cluster's CA: %w", err)
	}
	named := func(prefix string) bool {
		return slices.ContainsFunc(certs, func(cert *x509.Certificate) bool {
			is := func(pin string) bool { return strings.EqualFold(prefix+pin, PinOf(cert)) }
			return slices.ContainsFunc(boot.CACertHashes, is)
		})
	}
	switch {
	case named(""):
		return nil
	case named("sha256:"):
		return finding.Preflightf("verify the CA of %s: --discovery-token-ca-cert-hash lacks sha256: before its hash",
			boot.Endpoint).WithHint("--discovery-token-ca-cert-hash %s", PinOf(certs[0]))
	}
	return finding.Preflightf("verify the CA of %s: its hash is %s, which --discovery-token-ca-cert-hash does not name", boot.Endpoint, PinOf(certs[0])).
		WithHint("get a new join command with `ccmadm init phase show-join-command` on a control plane; if the hashes still differ, a proxy " +
			"or another API server answers at this address")
}

// PinOf is the hash by which --discovery-token-ca-cert-hash names a CA, sha256:HEX over the public key (RFC 7469).
func PinOf(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}
