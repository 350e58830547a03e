package host

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
)

// kubeletCertificate is that of the kubelet itself, which it renews.
const kubeletCertificate = "/var/lib/kubelet/pki/kubelet-client-current.pem"

// credentials are how this machine's kubelet connects, and the name of its Node; empty where the kubelet has not joined.
func (h *looking) credentials() (config *rest.Config, node string, err error) {
	there, err := h.Exists(machine.KubeletConf)
	if err != nil || !there {
		return nil, "", err
	}
	kubeconfig, err := identity.Kubeconfig(h.Machine, machine.KubeletConf)
	if err != nil {
		return nil, "", err
	}
	if err := h.useRenewed(kubeconfig); err != nil {
		return nil, "", err
	}
	if node, err = identity.NodeOf(kubeconfig); err != nil || node == "" {
		return nil, "", err
	}
	config, err = clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubelet's kubeconfig: %w", err)
	}
	if config.Proxy == nil { // else it would be that of the shell from which the doctor was called
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	return config, node, nil
}

// useRenewed puts the certificate that the kubelet has renewed in the place of the one in its kubeconfig, as the kubelet does until that
// one ends (client-go util/certificate). A kubeconfig may go on with a first certificate that ended years ago.
func (h *looking) useRenewed(config *clientcmdapi.Config) error {
	data, err := h.Read(kubeletCertificate)
	if errors.Is(err, fs.ErrNotExist) || !h.rotates() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the kubelet's certificate: %w", err)
	}
	certs, err := certutil.ParseCertsPEM(data)
	if err != nil {
		return fmt.Errorf("read %s: %w", kubeletCertificate, err)
	}
	if h.Now().After(certs[0].NotAfter) {
		return nil
	}
	for _, user := range config.AuthInfos {
		if len(user.ClientCertificateData) > 0 {
			user.ClientCertificateData, user.ClientKeyData = data, data // the file has both
		}
	}
	return nil
}

// newKubeletConf makes an identity for a kubelet whose own has ended or is refused, which the key of the cluster's CA signs. The kubelet
// takes one from its kubeconfig, and asks by that for the next of its own, unless it has one that has not ended. Then the kubeconfig names
// the kubelet's own, since the first one ends after a year and nothing renews it. A copy of the former kubeconfig stays.
func (h *looking) newKubeletConf(node string) string {
	file := "/root/ccmadm-kubelet-" + node + ".conf"
	sign := components.LiveConfiguration + " && " + components.OwnConfiguration + " && kubeadm kubeconfig user --config " +
		components.ConfigurationFile + " --org system:nodes --client-name " + v1alpha1.NodeUserPrefix + node + " > " + file +
		" && chmod 600 " + file
	restart := "mv --backup=numbered " + file + " " + machine.KubeletConf + " && rm -f " + kubeletCertificate + " && systemctl restart kubelet"
	if h.rotates() {
		restart += " && timeout 60 sh -c 'until test -e " + kubeletCertificate + "; do sleep 1; done' && " +
			`sed -Ei 's#client-(certificate|key)-data: .*#client-\1: ` + kubeletCertificate + "#' " + machine.KubeletConf
	}
	if h.hasCA() {
		return sign + " && " + restart
	}
	return "on a control plane with the CA's ca.key: " + sign + ", then copy that file to the same path on this machine, then: " + restart
}
