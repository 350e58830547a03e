package config

import (
	"net"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// Keys lists all that a machine can be found by, each with where it is written.
// No two machines of an inventory share one.
func (m *Machine) Keys(path *field.Path) []MachineKey {
	list := []MachineKey{{"id", m.ID, path.Child("id")}}
	add := func(kind, value string, path *field.Path) {
		if value != "" {
			list = append(list, MachineKey{kind, value, path})
		}
	}
	match := path.Child("match")
	add("systemUUID", UUID(m.Match.SystemUUID), match.Child("systemUUID"))
	add("serial", m.Match.Serial, match.Child("serial"))
	for n, mac := range m.Match.MACs {
		add("mac", CanonicalMAC(mac), match.Child("macs").Index(n))
	}
	for n, id := range m.Match.ProviderIDs {
		add("providerID", id, match.Child("providerIDs").Index(n))
	}
	for _, name := range m.names() {
		add("hostname", name, path.Child("hostname"))
	}
	return list
}

// MachineKey is something that a machine can be found by: its kind, such as "systemUUID", and its value in one
// spelling.
//
// +k8s:deepcopy-gen=false
type MachineKey struct {
	Kind, Value string
	Path        *field.Path
}

func (k MachineKey) String() string { return k.Kind + "=" + k.Value }

// names lists the Node names of a machine, each once, as a kubelet registers them.
func (m *Machine) names() []string {
	var all []string
	for _, name := range append([]string{m.Hostname}, m.Match.Hostnames...) {
		if name = strings.ToLower(name); name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Named reports whether a Node of that name is listed as the machine. Without a name
// in the inventory, it is none's.
func (m *Machine) Named(node string) bool { return slices.Contains(m.names(), strings.ToLower(node)) }

// CanonicalMAC returns a MAC address in the one spelling in which it is compared.
func CanonicalMAC(s string) string {
	mac, err := net.ParseMAC(s)
	if err != nil {
		return strings.ToLower(s)
	}
	return mac.String()
}

// IPs are the addresses of a machine that is in use, each in one spelling. A decommissioned one has none: its addresses
// may be given to the next machine.
func (m *Machine) IPs() []string {
	var all []string
	for _, a := range m.Addresses {
		isIP := a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP
		if ip := netutils.ParseIPSloppy(a.Address); ip != nil && isIP && m.State != MachineDecommissioned {
			all = append(all, ip.String())
		}
	}
	return all
}
