package identity

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
)

// Kubeconfig is a machine's kubeconfig with what stands in the files that it names: these are below the machine's root,
// where client-go would not look for them.
func Kubeconfig(m *machine.Machine, path string) (*clientcmdapi.Config, error) {
	config, err := readKubeconfig(m, path)
	if err != nil {
		return nil, err
	}
	for _, cluster := range config.Clusters {
		if err := inline(m, &cluster.CertificateAuthority, &cluster.CertificateAuthorityData); err != nil {
			return nil, fmt.Errorf("read the CA of %s: %w", path, err)
		}
	}
	for _, user := range config.AuthInfos {
		var token []byte
		err := cmp.Or(
			inline(m, &user.ClientCertificate, &user.ClientCertificateData),
			inline(m, &user.ClientKey, &user.ClientKeyData),
			inline(m, &user.TokenFile, &token),
		)
		if err != nil {
			return nil, fmt.Errorf("read the identity of %s: %w", path, err)
		}
		user.Token = cmp.Or(strings.TrimSpace(string(token)), user.Token)
	}
	return config, nil
}

// inline reads a file that a kubeconfig names. As for client-go, it is the data that counts where there are both.
func inline(m *machine.Machine, file *string, data *[]byte) (err error) {
	if *file != "" && len(*data) == 0 {
		*data, err = m.Read(*file)
	}
	*file = ""
	return err
}

// readKubeconfig reads it as it stands; its relative paths begin at its own directory.
func readKubeconfig(m *machine.Machine, path string) (*clientcmdapi.Config, error) {
	data, err := m.Read(path)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	for _, cluster := range config.Clusters {
		cluster.LocationOfOrigin = path
	}
	for _, user := range config.AuthInfos {
		user.LocationOfOrigin = path
	}
	return config, clientcmd.ResolveLocalPaths(config)
}

// ServerOf is where a kubeconfig's current context leads.
func ServerOf(config *clientcmdapi.Config) (string, error) {
	if len(config.Clusters) == 0 {
		return "", errors.New("it names no cluster")
	}
	if config.CurrentContext == "" {
		return "", errors.New("it has no current-context")
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return "", fmt.Errorf("it has no context %q", config.CurrentContext)
	}
	cluster := config.Clusters[context.Cluster]
	if cluster == nil {
		return "", fmt.Errorf("its context %q is of cluster %q, which it has not", config.CurrentContext, context.Cluster)
	}
	if cluster.Server == "" {
		return "", fmt.Errorf("its cluster %q has no server", context.Cluster)
	}
	return cluster.Server, nil
}

// NodeOfKubelet is the Node of a machine by its kubelet's certificate; empty where it has no kubelet that has joined.
func NodeOfKubelet(m *machine.Machine) (string, error) {
	there, err := m.Exists(machine.KubeletConf)
	if err != nil || !there {
		return "", err
	}
	config, err := Kubeconfig(m, machine.KubeletConf)
	if err != nil {
		return "", err
	}
	return NodeOf(config)
}

// NodeOf is the Node whose kubelet has a kubeconfig, by the certificate in it; empty where it has none of a kubelet.
func NodeOf(config *clientcmdapi.Config) (string, error) {
	for _, user := range config.AuthInfos {
		if len(user.ClientCertificateData) == 0 {
			continue
		}
		certs, err := certutil.ParseCertsPEM(user.ClientCertificateData)
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
	config, err := readKubeconfig(m, machine.KubeletConf)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var bundle []byte
	for _, cluster := range config.Clusters {
		if err := inline(m, &cluster.CertificateAuthority, &cluster.CertificateAuthorityData); err != nil {
			return nil, fmt.Errorf("read the CA of the kubelet's cluster: %w", err)
		}
		bundle = append(append(bundle, cluster.CertificateAuthorityData...), '\n')
	}
	return Pins(bundle), nil
}
