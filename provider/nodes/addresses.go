package nodes

import (
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodeutil "k8s.io/component-helpers/node/util"
	netutils "k8s.io/utils/net"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// machineAddresses returns the addresses of a listed machine: the inventory's,
// where it has an IP, and the names that the kubelet published. What the kubelet says must not be listed as another
// machine's. The list is nil without an inventory.
//
// An IP of --node-ip that is not among them would keep the taint, and upstream
// says so in its log only (kubernetes/kubernetes#61921).
func machineAddresses(node *corev1.Node, m *config.Machine, list *inventory.Inventory) ([]corev1.NodeAddress, error) {
	if m == nil || !slices.ContainsFunc(m.Addresses, isIP) {
		addresses, err := nodeAddresses(node)
		if err != nil || list == nil {
			return addresses, err
		}
		return addresses, unlisted(addresses, m, list)
	}
	addresses := addressList(m.Addresses)
	provided, err := providedIPs(node)
	if err != nil {
		return nil, err
	}
	for _, ip := range provided {
		if !slices.ContainsFunc(addresses, func(a corev1.NodeAddress) bool { return a.Address == ip.String() }) {
			return nil, finding.AddressNotListed.Errorf(
				"the inventory lists other addresses for the machine: --node-ip=%s is not among those of machine %s: correct one "+
					"or the other", ip, m.ID)
		}
	}
	return addNames(addresses, node), nil
}

// unlisted is an error if an address is another machine's.
func unlisted(addresses []corev1.NodeAddress, m *config.Machine, list *inventory.Inventory) error {
	for _, a := range addresses {
		if other := list.ByIP(a.Address); isIP(a) && other != nil && other != m {
			return finding.AddressTaken.Errorf("its kubelet reports address %s, which belongs to machine %s: correct --node-ip, "+
				"or the inventory", a.Address, other.ID)
		}
	}
	return nil
}

// addNames adds the names of a machine, and one if it has none.
func addNames(addresses []corev1.NodeAddress, node *corev1.Node) []corev1.NodeAddress {
	for _, published := range node.Status.Addresses {
		if !isIP(published) && !slices.Contains(addresses, published) {
			addresses = append(addresses, published)
		}
	}
	if !slices.ContainsFunc(addresses, isHostName) {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: node.Name})
	}
	return addresses
}

// addressList writes IPs in one way, and each address once.
func addressList(from []corev1.NodeAddress) []corev1.NodeAddress {
	var addresses []corev1.NodeAddress
	for _, a := range from {
		if ip := netutils.ParseIPSloppy(a.Address); ip != nil {
			a.Address = ip.String()
		}
		if !slices.Contains(addresses, a) {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

// providedIPs are those of the kubelet's --node-ip.
func providedIPs(node *corev1.Node) ([]net.IP, error) {
	provided, ok := node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]
	if !ok {
		return nil, nil
	}
	ips, err := nodeutil.ParseNodeIPAnnotation(provided)
	if err != nil {
		return nil, fmt.Errorf("parse annotation %s: %w", cloudproviderapi.AnnotationAlphaProvidedIPAddr, err)
	}
	return ips, nil
}

// nodeAddresses returns the addresses of a machine, without duplicates: what
// --node-ip says, what the kubelet published, and a host name.
//
// The node controller keeps the taint unless every IP of --node-ip, which the
// kubelet repeats in an annotation, is among them (kubernetes/kubernetes#61921).
func nodeAddresses(node *corev1.Node) ([]corev1.NodeAddress, error) {
	var addresses []corev1.NodeAddress
	provided, err := providedIPs(node)
	if err != nil {
		return nil, err
	}
	for _, ip := range provided {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip.String()})
	}
	addresses = addressList(append(addresses, node.Status.Addresses...))
	if !slices.ContainsFunc(addresses, isIP) {
		// In external mode a kubelet without --node-ip publishes none.
		return nil, finding.NoAddress.Errorf("the kubelet published no IP address: start it with --node-ip=ADDRESS " +
			"(0.0.0.0 or :: for that of the default route)")
	}
	return addNames(addresses, node), nil
}

func isIP(a corev1.NodeAddress) bool {
	return a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP
}

func isHostName(a corev1.NodeAddress) bool { return a.Type == corev1.NodeHostName }
