package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// ClusterName is what the settings say, or kubeadm's own if the user chose one, or what an earlier run found, or a name
// derived from the CA's public key: known before the API server is, the same on every control plane, and not shared by
// all clusters as kubeadm's default is, which lets clusters take over each other's load balancers. Once it is in a
// record it is not derived again: a CA may be replaced, and what was made under the name could not be found any more.
func ClusterName(h *workflow.Host, s *settings.Settings) (string, error) {
	if s.ClusterName != "" {
		return s.ClusterName, nil
	}
	if name := h.KubeadmFile.ClusterName(); name != "" && name != "kubernetes" {
		return name, nil
	}
	rec, err := h.Machine.Record()
	if err != nil {
		return "", err
	}
	if rec != nil && rec.Configuration.ClusterName != "" {
		return rec.Configuration.ClusterName, nil
	}
	certs, err := certutil.CertsFromFile(filepath.Join(h.Machine.Path(s.CertificatesDir), "ca.crt"))
	if errors.Is(err, fs.ErrNotExist) && h.DryRun {
		return "cluster-of-the-coming-ca", nil
	}
	if err != nil {
		return "", fmt.Errorf("derive the cluster's name from its CA: %w", err)
	}
	sum := sha256.Sum256(certs[0].RawSubjectPublicKeyInfo)
	return "cluster-" + hex.EncodeToString(sum[:5]), nil
}
