package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// NodeOfKubelet is the Node of a machine by its kubelet's certificate; empty where it has no kubelet that has joined.
// Its files are read below the machine's root, as rest.LoadTLSFiles would not.
func NodeOfKubelet(m *machine.Machine) (string, error) {
	config, err := kubeletConfig(m)
	if err != nil || config == nil {
		return "", err
	}
	for _, user := range config.AuthInfos {
		data := user.ClientCertificateData
		if user.ClientCertificate != "" {
			if data, err = m.Read(user.ClientCertificate); err != nil {
				return "", fmt.Errorf("read the kubelet's certificate: %w", err)
			}
		}
		if len(data) == 0 {
			continue
		}
		certs, err := certutil.ParseCertsPEM(data)
		if err != nil {
			return "", fmt.Errorf("read the kubelet's certificate: %w", err)
		}
		if name, found := strings.CutPrefix(certs[0].Subject.CommonName, v1alpha1.NodeUserPrefix); found {
			return name, nil
		}
	}
	return "", nil
}

// CAsOfKubelet are the hashes of the CAs that a machine's kubelet knows its API server by, which tell one cluster from
// another; none where it has not joined any.
func CAsOfKubelet(m *machine.Machine) ([]string, error) {
	config, err := kubeletConfig(m)
	if err != nil || config == nil {
		return nil, err
	}
	var bundle []byte
	for _, cluster := range config.Clusters {
		data := cluster.CertificateAuthorityData
		if cluster.CertificateAuthority != "" && len(data) == 0 {
			if data, err = m.Read(cluster.CertificateAuthority); err != nil {
				return nil, fmt.Errorf("read the CA of the kubelet's cluster: %w", err)
			}
		}
		bundle = append(append(bundle, data...), '\n')
	}
	return Pins(bundle), nil
}

// kubeletConfig is the kubelet's kubeconfig; nil: there is none.
func kubeletConfig(m *machine.Machine) (*clientcmdapi.Config, error) {
	data, err := m.Read(machine.KubeletConf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's kubeconfig: %w", err)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", machine.KubeletConf, err)
	}
	return config, nil
}
