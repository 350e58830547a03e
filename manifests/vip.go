package manifests

import (
	"fmt"
	"net/netip"
	"path"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// VIP is what the static pod of the control plane's own address is told.
type VIP struct {
	// NodeName is that of the machine's Node, and NodeAddress where the others hear it.
	NodeName    string
	NodeAddress netip.Addr
	// Address moves, on Interface.
	Address   netip.Addr
	Interface string
	// Port is that of the machine's API server.
	Port int
	// MembersFile is who may have the address, on the machine.
	MembersFile string
	// CertificatesDir has the cluster's CA and the key of ServiceAccounts, and Kubeconfig lets it list Nodes.
	CertificatesDir string
	Kubeconfig      string
}

// VIPPod returns the manifest of the static pod that holds the control plane's own address.
func VIPPod(p *templates.Profile, v templates.Values, vip VIP) ([]byte, error) {
	if p.NodeAgent == nil {
		return nil, fmt.Errorf("render static pod %s: provider %s has no node agent", v1alpha1.VIPName, p.Name)
	}
	pod := &corev1.Pod{}
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Name, pod.Namespace = v1alpha1.VIPName, v1alpha1.Namespace
	pod.Labels = map[string]string{v1alpha1.ComponentLabel: v1alpha1.VIPName, "tier": "control-plane"}
	if err := load("vip.yaml", &pod.Spec); err != nil {
		return nil, err
	}
	c := &pod.Spec.Containers[0]
	var err error
	if c.Image, err = p.NodeAgentImage(v); err != nil {
		return nil, fmt.Errorf("render static pod %s: %w", v1alpha1.VIPName, err)
	}
	ca, key := path.Join(vip.CertificatesDir, "ca.crt"), path.Join(vip.CertificatesDir, "sa.key")
	c.Args = []string{
		"vip",
		"--node-name=" + vip.NodeName,
		"--node-address=" + vip.NodeAddress.String(),
		"--vip=" + vip.Address.String(),
		"--interface=" + vip.Interface,
		fmt.Sprintf("--api-server-port=%d", vip.Port),
		"--members-file=" + vip.MembersFile,
		"--ca-file=" + ca,
		"--secret-file=" + key,
		"--kubeconfig=" + vip.Kubeconfig,
	}
	for _, file := range []struct{ name, path string }{{"ca", ca}, {"secret", key}, {"kubeconfig", vip.Kubeconfig}} {
		mount(&pod.Spec, file.name, file.path, hostPath(file.path, corev1.HostPathFile))
	}
	dir := path.Dir(vip.MembersFile)
	mount(&pod.Spec, "members", dir, hostPath(dir, corev1.HostPathDirectoryOrCreate))
	c.VolumeMounts[len(c.VolumeMounts)-1].ReadOnly = false // it keeps the list for its next start
	o, err := toObject(pod)
	if err != nil {
		return nil, err
	}
	data, err := yaml.Marshal(o.Object)
	if err != nil {
		return nil, fmt.Errorf("encode static pod %s: %w", v1alpha1.VIPName, err)
	}
	return data, nil
}
