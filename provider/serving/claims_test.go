package serving

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// unlisted is a Node of no inventory, whose kubelet may have any address of a range, and any name below a domain.
func unlisted(f *forgery) {
	f.identity.Proven, f.asked.IPAddresses = false, nil
	f.ranges, f.names = []netip.Prefix{netip.MustParsePrefix("198.18.0.0/24")}, Names{"*.nodes.example"}
}

// inRange asks for an address of the range.
func inRange(f *forgery) {
	unlisted(f)
	f.gives(corev1.NodeInternalIP, "198.18.0.21")
	f.asked.IPAddresses = []net.IP{net.ParseIP("198.18.0.21")}
}

// byVendor is a Node whose addresses the manager of a vendor wrote.
func byVendor(f *forgery) {
	unlisted(f)
	f.identity.Guarded = true
}

func (f *forgery) gives(kind corev1.NodeAddressType, address string) {
	f.identity.Addresses = append(f.identity.Addresses, corev1.NodeAddress{Type: kind, Address: address})
}

// beside adds an initialized Node, made so long after the one that is judged.
func (f *forgery) beside(name string, age time.Duration) *corev1.Node {
	f.node.CreationTimestamp = metav1.NewTime(time.Unix(1e9, 0))
	other := claims("")
	other.Name, other.CreationTimestamp = name, metav1.NewTime(time.Unix(1e9, 0).Add(age))
	f.others = append(f.others, other)
	return other
}

// What a kubelet or the holder of a bootstrap token says is a name of another machine.
func TestForgedNames(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*forgery)
		want   string // empty: it is approved
	}{
		{"a name in the status of a Node that no inventory lists", func(f *forgery) {
			unlisted(f)
			f.gives(corev1.NodeInternalDNS, "db.nodes.example")
			f.asked.DNSNames = []string{"db.nodes.example"}
		}, "NameNotOfNode"},
		{"the first label of a name with dots", func(f *forgery) {
			unlisted(f)
			f.called("w2.evil.example")
			f.asked.DNSNames = []string{"w2.nodes.example"}
		}, "NameNotOfNode"},
		{"another Node's name, and a domain", func(f *forgery) {
			unlisted(f)
			f.called("w9.nodes.example")
			f.beside("w9", -time.Hour)
		}, "AddressTaken"},
		{"a younger Node has the name without a domain", func(f *forgery) {
			unlisted(f)
			f.called("w9.nodes.example")
			f.beside("w9", time.Hour)
		}, ""},
		{"another Node's name without its domain", func(f *forgery) {
			f.called("w9")
			f.beside("w9.nodes.example", -time.Hour)
		}, "AddressTaken"},
		{"letters that look like others", func(f *forgery) { f.called("xn--vult-53d") }, "NameNotProven"},
		{"such letters, listed", func(f *forgery) {
			f.called("xn--vult-53d")
			f.gives(corev1.NodeHostName, "xn--vult-53d")
		}, ""},
		{"another name of each machine", func(f *forgery) { f.called("ip6-localhost") }, "ReservedName"},
		{"a name below that of each machine", func(f *forgery) { f.called("localhost.localdomain") }, "ReservedName"},
		{"what a browser takes for 0.0.0.0", func(f *forgery) { f.called("0x") }, "WrongNames"},
		{"a hexadecimal number that is too large", func(f *forgery) { f.called("0x7f000001ffffffffffffffff") }, "WrongNames"},
		{"a name that the API server's certificate covers with *", func(f *forgery) {
			unlisted(f)
			f.called("eu.api.nodes.example")
			f.endpoints = []string{"*.api.nodes.example"}
		}, "ReservedName"},
		{"its own name, of a cloud that gives it another one", func(f *forgery) {
			byVendor(f)
			f.called("w3.nodes.example")
			f.gives(corev1.NodeInternalDNS, "w1.nodes.example")
		}, "NameNotOfNode"},
		{"its own name, of a cloud that gives none", func(f *forgery) {
			byVendor(f)
			f.called("w3.nodes.example")
			f.identity.Addresses = f.identity.Addresses[:2]
		}, ""},
		{"a listed name that a Node has taken as its own", func(f *forgery) {
			f.asked.DNSNames = []string{"w1", "w1.ber1.example"}
			f.beside("w1.ber1.example", time.Hour)
		}, ""},
		{"a name of the cloud that a Node has taken as its own, which waits", func(f *forgery) {
			byVendor(f)
			f.gives(corev1.NodeInternalDNS, "i-0abc.nodes.example")
			f.asked.DNSNames = []string{"i-0abc.nodes.example"}
			f.beside("i-0abc.nodes.example", -time.Hour).Spec.Taints = []corev1.Taint{{Key: v1alpha1.UninitializedTaint}}
		}, ""},
		{"the name of a Node that the cloud knows, too", func(f *forgery) {
			byVendor(f)
			f.gives(corev1.NodeInternalDNS, "i-0abc.nodes.example")
			f.asked.DNSNames = []string{"i-0abc.nodes.example"}
			f.beside("i-0abc.nodes.example", time.Hour)
		}, "AddressTaken"},
		{"a younger kubelet that claims hundreds of addresses", func(f *forgery) {
			inRange(f)
			evil := f.beside("evil", time.Hour)
			evil.Annotations[v1alpha1.ProvidedNodeIPAnnotation] = "198.18.0.66,198.18.0.21"
			for i := range 250 {
				evil.Status.Addresses = append(evil.Status.Addresses, corev1.NodeAddress{
					Type: corev1.NodeInternalIP, Address: fmt.Sprintf("198.18.0.%d", i+1),
				})
			}
		}, ""},
		{"an older Node with several addresses", func(f *forgery) {
			inRange(f)
			f.beside("older", -time.Hour).Status.Addresses = []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "198.18.0.66"}, {Type: corev1.NodeExternalIP, Address: "198.18.0.21"},
			}
		}, "AddressTaken"},
		{"a younger kubelet that claims the address", func(f *forgery) {
			inRange(f)
			f.beside("evil", time.Hour).Annotations[v1alpha1.ProvidedNodeIPAnnotation] = "198.18.0.21"
		}, "AddressTaken"},
		{"too many names", func(f *forgery) {
			for i := range most {
				f.asked.DNSNames = append(f.asked.DNSNames, fmt.Sprintf("w1-%d", i))
			}
		}, "WrongNames"},
		{"one address, ten thousand times", func(f *forgery) {
			for range 10000 {
				f.asked.IPAddresses = append(f.asked.IPAddresses, net.ParseIP("198.18.0.11"))
			}
		}, "WrongNames"},
		{"a requester whose Node can be no Node", func(f *forgery) { f.called("../w1") }, "WrongRequester"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := honest()
			c.change(f)
			err := f.verdict(t)
			var held *Hold
			if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &held) || held.Reason != c.want) {
				t.Errorf("got %+v, want %q", err, c.want)
			}
		})
	}
}
