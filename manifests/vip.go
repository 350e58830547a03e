package manifests

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// VIP is what the static pod of the control plane's own address is told.
type VIP struct {
	// NodeName is that of the machine's Node, and NodeAddress where the others hear it.
	NodeName    string
	NodeAddress netip.Addr
	// Address is answered for on Interface, or announced as BGP says.
	Address   netip.Addr
	Interface string
	BGP       *config.ControlPlaneVIPBGP
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
	c.Args = []string{
		"vip",
		"--node-name=" + vip.NodeName,
		"--node-address=" + vip.NodeAddress.String(),
		"--vip=" + vip.Address.String(),
	}
	ca := path.Join(vip.CertificatesDir, "ca.crt")
	mount(&pod.Spec, "ca", ca, hostPath(ca, corev1.HostPathFile))
	if vip.BGP == nil {
		byElection(&pod.Spec, vip, ca)
	} else if err := byBGP(&pod.Spec, vip, ca); err != nil {
		return nil, err
	}
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

// byElection lets one control plane answer ARP or NDP for the address.
func byElection(spec *corev1.PodSpec, vip VIP, ca string) {
	c, key := &spec.Containers[0], path.Join(vip.CertificatesDir, "sa.key")
	c.Args = append(c.Args,
		"--interface="+vip.Interface,
		fmt.Sprintf("--api-server-port=%d", vip.Port),
		"--members-file="+vip.MembersFile,
		"--ca-file="+ca,
		"--secret-file="+key,
		"--kubeconfig="+vip.Kubeconfig,
	)
	mount(spec, "secret", key, hostPath(key, corev1.HostPathFile))
	mount(spec, "kubeconfig", vip.Kubeconfig, hostPath(vip.Kubeconfig, corev1.HostPathFile))
	dir := path.Dir(vip.MembersFile)
	mount(spec, "members", dir, hostPath(dir, corev1.HostPathDirectoryOrCreate))
	c.VolumeMounts[len(c.VolumeMounts)-1].ReadOnly = false // it keeps the list for its next start
}

// byBGP lets every control plane announce the address. The manifest has all that it goes by: there is no API yet.
func byBGP(spec *corev1.PodSpec, vip VIP, ca string) error {
	routers, err := json.Marshal(vip.BGP)
	if err != nil {
		return fmt.Errorf("encode controlPlaneVIP.bgp: %w", err)
	}
	c := &spec.Containers[0]
	c.Args = append(c.Args,
		fmt.Sprintf("--api-server-port=%d", vip.Port),
		"--ca-file="+ca,
		"--bgp="+string(routers),
	)
	c.SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
	if slices.ContainsFunc(vip.BGP.Peers, func(p config.ControlPlaneVIPPeer) bool { return p.Interface != "" }) {
		c.SecurityContext.Capabilities.Add = append(c.SecurityContext.Capabilities.Add, "NET_RAW") // router advertisements
	}
	return nil
}
