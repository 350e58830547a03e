package provider

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodeutil "k8s.io/component-helpers/node/util"
	netutils "k8s.io/utils/net"
)

// errNoAddress means that neither the kubelet nor anybody else named an IP of
// the machine. In external mode a kubelet without --node-ip publishes none.
var errNoAddress = errors.New("the kubelet published no IP address: start it with --node-ip=ADDRESS (0.0.0.0 or :: for that of the default route)")

// nodeAddresses returns the addresses of a machine, without duplicates: what
// --node-ip says, what the kubelet published, and a host name.
//
// The node controller keeps the taint unless every IP of --node-ip, which the
// kubelet repeats in an annotation, is among them (kubernetes/kubernetes#61921).
func nodeAddresses(node *corev1.Node) ([]corev1.NodeAddress, error) {
	var addresses []corev1.NodeAddress
	add := func(a corev1.NodeAddress) {
		if ip := netutils.ParseIPSloppy(a.Address); ip != nil {
			a.Address = ip.String()
		}
		if !slices.Contains(addresses, a) {
			addresses = append(addresses, a)
		}
	}
	if provided, ok := node.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr]; ok {
		ips, err := nodeutil.ParseNodeIPAnnotation(provided)
		if err != nil {
			return nil, fmt.Errorf("parse annotation %s: %w", cloudproviderapi.AnnotationAlphaProvidedIPAddr, err)
		}
		for _, ip := range ips {
			add(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip.String()})
		}
	}
	for _, published := range node.Status.Addresses {
		add(published)
	}
	if !slices.ContainsFunc(addresses, isIP) {
		return nil, errNoAddress
	}
	if !slices.ContainsFunc(addresses, isHostName) {
		add(corev1.NodeAddress{Type: corev1.NodeHostName, Address: node.Name})
	}
	return addresses, nil
}

func isIP(a corev1.NodeAddress) bool {
	return a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP
}

func isHostName(a corev1.NodeAddress) bool { return a.Type == corev1.NodeHostName }
