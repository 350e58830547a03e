package phases

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
)

// nodeIP turns the policy into the value of the kubelet's --node-ip. Without that flag a kubelet in external mode
// publishes no address until the cloud-controller-manager does (kubernetes/kubernetes#121028), and onprem has no
// other source to ask.
func (d *Data) nodeIP(ctx context.Context, settings *v1alpha1.CloudConfiguration) (string, error) {
	switch policy := settings.NodeIP; policy {
	case v1alpha1.NodeIPDefault:
		return "0.0.0.0", nil
	case v1alpha1.NodeIPAuto:
		return d.autoNodeIP(ctx)
	default:
		if prefix, err := netip.ParsePrefix(policy); err == nil {
			return localAddressIn(prefix)
		}
		addrs, err := v1alpha1.ParseAddresses(policy)
		if err != nil {
			return "", err
		}
		return policy, checkLocal(addrs)
	}
}

// autoNodeIP is the advertise address on a control plane, elsewhere the source of the route to the API server, and
// in a dual-stack cluster an address of the other family on the same interface as well.
func (d *Data) autoNodeIP(ctx context.Context) (string, error) {
	ip, err := d.primaryAddress(ctx)
	if err != nil {
		return "", err
	}
	dual, err := d.dualStack(ctx)
	if err != nil || !dual {
		return ip.String(), err
	}
	other, err := otherFamily(ip)
	if err != nil {
		return "", err
	}
	return ip.String() + "," + other.String(), nil
}

func (d *Data) primaryAddress(ctx context.Context) (netip.Addr, error) {
	if d.Role == kubeadm.RoleInit || d.Kubeadm.JoinsControlPlane() {
		return advertiseAddress(d.Kubeadm.AdvertiseAddress(d.Role))
	}
	if server := d.Kubeadm.JoinEndpoint(); server != "" {
		return sourceAddress(ctx, server)
	}
	return advertiseAddress("")
}

// advertiseAddress is kubeadm's choice: what was configured, else the address of the default route's interface.
func advertiseAddress(configured string) (netip.Addr, error) {
	ip, err := utilnet.ResolveBindAddress(net.ParseIP(configured))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find this machine's address: %w", err)
	}
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap(), checkLocal([]netip.Addr{addr.Unmap()})
}

// sourceAddress asks the routing table, without sending a packet, which address traffic to the API server has.
func sourceAddress(ctx context.Context, server string) (netip.Addr, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "udp", server)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the route to the API server %s: %w", server, err)
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	addr := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	if addr.IsLoopback() { // a load balancer on each machine, which says nothing about the network behind it
		return advertiseAddress("")
	}
	return addr.WithZone(""), nil
}

func (d *Data) dualStack(ctx context.Context) (bool, error) {
	subnets, err := d.podSubnet(ctx)
	if err != nil {
		return false, err
	}
	var v4, v6 bool
	for s := range strings.SplitSeq(subnets, ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(s)); err == nil {
			v4, v6 = v4 || p.Addr().Is4(), v6 || p.Addr().Is6()
		}
	}
	return v4 && v6, nil
}

// podSubnet is the cluster's, which a machine that joins has from the record.
func (d *Data) podSubnet(ctx context.Context) (string, error) {
	if d.Role == kubeadm.RoleInit {
		return d.Kubeadm.PodSubnet(), nil
	}
	rec, err := d.knownRecord(ctx)
	if err != nil || rec == nil {
		return "", err
	}
	return rec.PodSubnet, nil
}

// otherFamily finds a global address of the other family on the interface that has ip.
func otherFamily(ip netip.Addr) (netip.Addr, error) {
	byInterface, err := interfaceAddresses()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, addrs := range byInterface {
		if !slices.Contains(addrs, ip) {
			continue
		}
		for _, other := range addrs {
			if other.Is4() != ip.Is4() && other.IsGlobalUnicast() {
				return other, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("choose --node-ip: the cluster is dual-stack, and the interface that has %s has no address of the other family", ip)
}

func localAddressIn(prefix netip.Prefix) (string, error) {
	addrs, err := localAddresses()
	if err != nil {
		return "", err
	}
	for _, addr := range addrs {
		if prefix.Contains(addr) {
			return addr.String(), nil
		}
	}
	return "", fmt.Errorf("choose --node-ip: no address of this machine is in %s (it has %s)", prefix, join(addrs))
}

// checkLocal refuses an address that no interface has: the kubelet would say so only in its journal, over and over.
func checkLocal(wanted []netip.Addr) error {
	addrs, err := localAddresses()
	if err != nil {
		return err
	}
	for _, addr := range wanted {
		if !slices.Contains(addrs, addr) {
			return fmt.Errorf("node IP %s is not an address of this machine (it has %s)", addr, join(addrs))
		}
	}
	return nil
}

func localAddresses() ([]netip.Addr, error) {
	byInterface, err := interfaceAddresses()
	return slices.Concat(byInterface...), err
}

// interfaceAddresses lists the usable addresses, by interface in the kernel's order.
func interfaceAddresses() ([][]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var all [][]netip.Addr
	for _, i := range interfaces {
		nets, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		var addrs []netip.Addr
		for _, n := range nets {
			prefix, err := netip.ParsePrefix(n.String())
			if err == nil && !prefix.Addr().IsLoopback() && !prefix.Addr().IsLinkLocalUnicast() {
				addrs = append(addrs, prefix.Addr().Unmap())
			}
		}
		all = append(all, addrs)
	}
	return all, nil
}

func join(addrs []netip.Addr) string {
	if len(addrs) == 0 {
		return "none"
	}
	var s []string
	for _, addr := range addrs {
		s = append(s, addr.String())
	}
	return strings.Join(s, ", ")
}
