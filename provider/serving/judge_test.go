package serving

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// forgery is a request, and what is known of the Node that it is held against, both as a case changes them.
type forgery struct {
	asked    *x509.CertificateRequest
	spec     *certificatesv1.CertificateSigningRequestSpec
	node     *corev1.Node
	identity *Identity
	ranges   []netip.Prefix
	names    Names
	others   []*corev1.Node // beside those that there always are

	endpoints []string // of API servers, beside those that there always are
}

// called gives the Node another name, which its kubelet asks for.
func (f *forgery) called(name string) {
	f.node.Name, f.asked.DNSNames = name, []string{name}
	f.asked.Subject.CommonName, f.spec.Username = "system:node:"+name, "system:node:"+name
}

// claims is an initialized Node whose kubelet says that an address is its own.
func claims(address string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "evil", Annotations: map[string]string{v1alpha1.ProvidedNodeIPAnnotation: address}},
		Spec:       corev1.NodeSpec{ProviderID: "onprem://ber1/evil"},
	}
}

// renamed adds the older Node of the same machine, with its address. Named: the inventory lists the new name.
func (f *forgery) renamed(named bool) {
	const shared = "198.18.0.20"
	former := claims(shared)
	former.Name, former.Spec.ProviderID = "former", f.node.Spec.ProviderID
	former.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: shared}}
	f.asked.IPAddresses, f.identity.Addresses = []net.IP{net.ParseIP(shared)}, append(f.identity.Addresses, former.Status.Addresses...)
	f.identity.Named, f.others = named, append(f.others, former)
}

// honest is what the kubelet of w1 asks for.
func honest() *forgery {
	return &forgery{
		asked: &x509.CertificateRequest{
			Subject:  pkix.Name{CommonName: "system:node:w1", Organization: []string{"system:nodes"}},
			DNSNames: []string{"w1"}, IPAddresses: []net.IP{net.ParseIP("198.18.0.11")},
		},
		spec: &certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeletServingSignerName, Username: "system:node:w1",
			Groups: []string{"system:nodes", "system:authenticated"},
			Usages: []certificatesv1.KeyUsage{"digital signature", "server auth"},
		},
		node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "w1"}, Spec: corev1.NodeSpec{ProviderID: "onprem://ber1/r1"},
		},
		identity: &Identity{Proven: true, Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "198.18.0.11"},
			{Type: corev1.NodeInternalIP, Address: "2001:db8::11"},
			{Type: corev1.NodeHostName, Address: "w1"},
			{Type: corev1.NodeInternalDNS, Address: "W1.ber1.example"},
		}},
	}
}

// verdict judges as an Approver does, beside a control plane and another worker.
func (f *forgery) verdict(t *testing.T) error {
	t.Helper()
	f.sign(t)
	r, err := parse(&certificatesv1.CertificateSigningRequest{Spec: *f.spec})
	if err != nil {
		return err
	}
	if err := resolved(f.node); err != nil {
		return err
	}
	other := func(name, id, ip string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: id},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}},
		}
	}
	late := other("late", "", "198.18.0.11")
	late.Spec.Taints = []corev1.Taint{{Key: v1alpha1.UninitializedTaint}}
	j := judgement{
		node: f.node, identity: *f.identity, ranges: f.ranges, names: f.names,
		others: []*corev1.Node{other("cp1", "onprem://ber1/c1", "198.18.0.1"), other("w2", "onprem://ber1/r2", "198.18.0.12"), late},
		reserved: reserved{
			services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}, endpoints: sets.New("198.18.0.10", "api.ber1.example"),
			names: sets.New("vault", "hook.ber1.example"),
		},
	}
	j.others = append(j.others, f.others...)
	j.reserved.endpoints.Insert(f.endpoints...)
	return j.of(r)
}

func TestHonestRequestsPass(t *testing.T) {
	for name, change := range map[string]func(*forgery){
		"an address and the name": func(*forgery) {},
		"both addresses, and a listed name": func(f *forgery) {
			f.asked.DNSNames = append(f.asked.DNSNames, "w1.ber1.example")
			f.asked.IPAddresses = append(f.asked.IPAddresses, net.ParseIP("2001:db8::11"))
		},
		"an RSA key's usages": func(f *forgery) {
			f.spec.Usages = []certificatesv1.KeyUsage{"key encipherment", "digital signature", "server auth"}
		},
		"for an hour": func(f *forgery) { f.spec.ExpirationSeconds = new(int32(3600)) },
		"a control plane with the address of the API server": func(f *forgery) {
			f.node.Labels = map[string]string{v1alpha1.ControlPlaneLabel: ""}
			f.asked.IPAddresses = []net.IP{net.ParseIP("198.18.0.10")}
			f.identity.Addresses = append(f.identity.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "198.18.0.10"})
		},
		"a listed hostname with dots": func(f *forgery) { f.called("w1.ber1.example") },
		"a name that a pattern allows, and nothing proves": func(f *forgery) {
			f.called("w7.nodes.example")
			f.names = Names{"*.nodes.example"}
		},
		"beside a vendor's manager, with the names that its cloud gives": func(f *forgery) {
			f.called("ip-10-0-0-1.eu-west-1.compute.internal")
			f.asked.DNSNames = append(f.asked.DNSNames, "ec2-203-0-113-7.eu-west-1.compute.amazonaws.com", "i-0abc.eu-west-1.compute.internal")
			f.names = Names{"*.compute.internal", "*.compute.amazonaws.com"}
			f.ranges = []netip.Prefix{netip.MustParsePrefix("198.18.0.0/24")}
			f.identity.Proven, f.identity.Guarded = false, true
			for _, name := range f.asked.DNSNames {
				f.identity.Addresses = append(f.identity.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: name})
			}
			f.others = append(f.others, claims("198.18.0.11"))
		},
		"proven, and another kubelet claims the address": func(f *forgery) { f.others = append(f.others, claims("198.18.0.11")) },
		"proven, and another Node has the address in its status": func(f *forgery) {
			evil := claims("")
			evil.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0.11"}}
			f.others = append(f.others, evil)
		},
		"proven, and a younger Node has its provider ID": func(f *forgery) {
			evil := claims("")
			evil.Spec.ProviderID, evil.CreationTimestamp = f.node.Spec.ProviderID, metav1.Now()
			f.others = append(f.others, evil)
		},
		"proven, and the machine's Node under its former name stays": func(f *forgery) { f.renamed(true) },
		"claimed, and the machine's Node under its former name stays": func(f *forgery) {
			f.renamed(true)
			f.identity.Proven, f.ranges = false, []netip.Prefix{netip.MustParsePrefix("198.18.0.0/24")}
		},
		"claimed, in a range that is believed": func(f *forgery) {
			f.identity.Proven, f.ranges = false, []netip.Prefix{netip.MustParsePrefix("198.18.0.0/24")}
			f.asked.IPAddresses = []net.IP{net.ParseIP("198.18.0.20")}
			f.identity.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0.20"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := honest()
			change(f)
			if err := f.verdict(t); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestForgeriesAreHeld(t *testing.T) {
	ips := func(list ...string) func(*forgery) {
		return func(f *forgery) {
			f.asked.IPAddresses = nil
			for _, ip := range list {
				f.asked.IPAddresses = append(f.asked.IPAddresses, net.ParseIP(ip))
			}
		}
	}
	known := func(address string) func(*forgery) {
		return func(f *forgery) {
			ips(address)(f)
			f.identity.Addresses = append(f.identity.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
		}
	}
	names := func(list ...string) func(*forgery) { return func(f *forgery) { f.asked.DNSNames = list } }
	for _, c := range []struct {
		name   string
		change func(*forgery)
		want   string
	}{
		{"another Node's name as subject", func(f *forgery) { f.asked.Subject.CommonName = "system:node:w2" }, "WrongName"},
		{"two names in the subject", func(f *forgery) {
			f.asked.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "admin"}}
			f.asked.Subject.CommonName = "system:node:w1"
		}, "WrongName"},
		{"a unit in the subject", func(f *forgery) { f.asked.Subject.OrganizationalUnit = []string{"x"} }, "WrongName"},
		{"the organization of administrators", func(f *forgery) {
			f.asked.Subject.Organization = []string{"system:masters"}
		}, "WrongOrganization"},
		{"one more organization", func(f *forgery) {
			f.asked.Subject.Organization = []string{"system:nodes", "system:masters"}
		}, "WrongOrganization"},
		{"a requester who is no kubelet", func(f *forgery) { f.spec.Username = "system:serviceaccount:default:w1" }, "WrongRequester"},
		{"a requester with a kubelet's name, outside its group", func(f *forgery) {
			f.spec.Groups = []string{"system:authenticated"}
		}, "WrongRequester"},
		{"another signer", func(f *forgery) { f.spec.SignerName = certificatesv1.KubeAPIServerClientSignerName }, "WrongSigner"},
		{"client auth", func(f *forgery) {
			f.spec.Usages = []certificatesv1.KeyUsage{"digital signature", "client auth"}
		}, "WrongUsages"},
		{"client auth beside server auth", func(f *forgery) {
			f.spec.Usages = append(f.spec.Usages, "client auth")
		}, "WrongUsages"},
		{"cert sign", func(f *forgery) { f.spec.Usages = append(f.spec.Usages, "cert sign") }, "WrongUsages"},
		{"ten years", func(f *forgery) { f.spec.ExpirationSeconds = new(int32(10 * 365 * 24 * 3600)) }, "TooLong"},
		{"an e-mail address", func(f *forgery) { f.asked.EmailAddresses = []string{"root@w1"} }, "WrongNames"},
		{"a URI", func(f *forgery) { f.asked.URIs = []*url.URL{{Scheme: "spiffe", Host: "ber1"}} }, "WrongNames"},
		{"a name of a kind that Go does not know", func(f *forgery) {
			f.asked.ExtraExtensions = []pkix.Extension{{
				Id: asn1.ObjectIdentifier{2, 5, 29, 17},
				Value: []byte{
					0x30, 0x0f, 0x82, 0x02, 'w', '1', // DNS name, and then another name: 1.2.3 with nothing
					0xa0, 0x09, 0x06, 0x02, 0x2a, 0x03, 0xa0, 0x03, 0x0c, 0x01, 'x',
				},
			}}
		}, "WrongNames"},
		{"to be a CA", func(f *forgery) {
			f.asked.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}
		}, "WrongExtension"},
		{"nothing", func(f *forgery) { f.asked.DNSNames, f.asked.IPAddresses = nil, nil }, "WrongNames"},
		{"no PEM", func(f *forgery) { f.spec.Request = []byte("\x1b[2J") }, "Malformed"},
		{"two blocks of PEM", func(f *forgery) {
			block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST"})
			f.spec.Request = append(block, block...)
		}, "Malformed"},

		{"a wildcard", names("w1", "*.ber1.example"), "WrongNames"},
		{"another Node's name", names("w2"), "NameNotOfNode"},
		{"a name that nobody has", names("w1", "vault.example"), "NameNotOfNode"},
		{"the API server's name in the cluster", names("kubernetes.default.svc.cluster.local"), "ReservedName"},
		{"a Service's name", names("dns.kube-system.svc"), "ReservedName"},
		{"localhost", names("localhost"), "ReservedName"},
		{"the API server's name", names("API.ber1.example"), "ReservedName"},
		{"another Node's address", ips("198.18.0.11", "198.18.0.12"), "AddressNotOfNode"},
		{"an address that nobody has", ips("198.18.0.99"), "AddressNotOfNode"},
		{"the API server's address", known("198.18.0.10"), "ReservedAddress"},
		{"the address of a Service", known("10.96.0.1"), "ReservedAddress"},
		{"the address of every machine", known("127.0.0.1"), "ReservedAddress"},
		{"a link's address", known("fe80::1"), "ReservedAddress"},
		{"an address that two Nodes have", func(f *forgery) {
			known("198.18.0.12")(f)
			f.identity.Proven, f.ranges = false, []netip.Prefix{netip.MustParsePrefix("198.18.0.0/24")}
		}, "AddressTaken"},
		{"an IPv4 address as an IPv6 one", ips("::ffff:198.18.0.12"), "AddressNotOfNode"},
		{"an unspecified address", known("0.0.0.0"), "ReservedAddress"},
		{"multicast", known("224.0.0.1"), "ReservedAddress"},

		{"a Node that waits", func(f *forgery) {
			f.node.Spec.Taints = []corev1.Taint{{Key: v1alpha1.UninitializedTaint}}
		}, "NotInitialized"},
		{"a Node without provider ID", func(f *forgery) { f.node.Spec.ProviderID = "" }, "NoProviderID"},
		{"a Node that goes", func(f *forgery) { f.node.DeletionTimestamp = new(metav1.Now()) }, "NodeGoes"},
		{"another Node's provider ID", func(f *forgery) { f.node.Spec.ProviderID = "onprem://ber1/r2" }, "ProviderIDTaken"},

		{"the provider ID of an older Node, which may be a clone", func(f *forgery) { f.renamed(false) }, "ProviderIDTaken"},
		{"named, and another machine's Node has the address", func(f *forgery) {
			f.renamed(true)
			f.identity.Proven, f.ranges = false, []netip.Prefix{netip.MustParsePrefix("198.18.0.0/24")}
			f.others[len(f.others)-1].Spec.ProviderID = "onprem://ber1/r9"
		}, "AddressTaken"},

		{"claimed, and in no range", func(f *forgery) { f.identity.Proven = false }, "AddressNotProven"},
		{"claimed, outside of the range", func(f *forgery) {
			f.identity.Proven, f.ranges = false, []netip.Prefix{netip.MustParsePrefix("198.18.1.0/24")}
		}, "AddressNotProven"},
		{"claimed, and by one that waits, too", func(f *forgery) {
			f.identity.Proven, f.ranges = false, []netip.Prefix{netip.MustParsePrefix("198.18.0.0/24")}
		}, "AddressTaken"},
		{"its own name, with dots, and not listed", func(f *forgery) { f.called("api.prod.example.com") }, "NameNotProven"},
		{"its own name, with dots, of no inventory", func(f *forgery) {
			f.called("oidc.corp.example")
			f.identity.Proven, f.ranges = false, []netip.Prefix{netip.MustParsePrefix("198.18.0.0/24")}
		}, "NameNotProven"},
		{"its own name outside of the pattern", func(f *forgery) {
			f.called("nodes.example")
			f.names = Names{"*.nodes.example"}
		}, "NameNotProven"},
		{"a name that ends as the pattern does", func(f *forgery) {
			f.called("evilnodes.example")
			f.names = Names{"*.nodes.example"}
		}, "NameNotProven"},
		{"another machine's name in the pattern", func(f *forgery) {
			f.asked.DNSNames, f.names = []string{"w2.nodes.example"}, Names{"*.nodes.example"}
		}, "NameNotOfNode"},
		{"a webhook's name in the pattern", func(f *forgery) {
			f.called("hook.ber1.example")
			f.names = Names{"*.ber1.example"}
		}, "ReservedName"},
		{"the API server's name in the pattern", func(f *forgery) {
			f.called("api.ber1.example")
			f.names = Names{"*.ber1.example"}
		}, "ReservedName"},
		{"a Service's name as its own", func(f *forgery) { f.called("vault") }, "ReservedName"},
		{"the form of an address as its own", func(f *forgery) { f.called("10.96.0.1") }, "WrongNames"},
		{"a short form of an address", func(f *forgery) { f.called("10.1") }, "WrongNames"},
		{"an address as a number", func(f *forgery) { f.called("2130706433") }, "WrongNames"},
		{"an address as a hexadecimal number", func(f *forgery) { f.called("0x7f000001") }, "WrongNames"},
		{"an address as a name", names("w1", "198.18.0.12"), "WrongNames"},
		{"a trailing dot", names("w1."), "WrongNames"},
		{"an underscore", names("w_1"), "WrongNames"},
		{"an IDN that looks like another name", names("xn--w1-lmd"), "NameNotOfNode"},
		{"a zone behind an address", names("fe80::1%eth0"), "WrongNames"},
		{"another Node's name in capitals", names("W2"), "NameNotOfNode"},
		{"a name of cluster DNS", names("w1.default.svc.cluster.local"), "ReservedName"},
		{"a claimed name", func(f *forgery) {
			f.identity.Proven, f.ranges = false, []netip.Prefix{netip.MustParsePrefix("198.18.0.0/24")}
			f.asked.DNSNames = []string{"w1.ber1.example"}
		}, "NameNotOfNode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := honest()
			c.change(f)
			var held *Hold
			if err := f.verdict(t); !errors.As(err, &held) || held.Reason != c.want {
				t.Errorf("got %+v, want %s", err, c.want)
			}
		})
	}
}

func TestParseRanges(t *testing.T) {
	got, err := ParseRanges([]string{"198.18.0.7/24", " 2001:db8::/32", "10.1.2.3/8"})
	if want := "[198.18.0.0/24 2001:db8::/32 10.0.0.0/8]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v; want %s", got, err, want)
	}
	for name, text := range map[string]string{
		"an address": "198.18.0.7", "all addresses": "0.0.0.0/0", "all of IPv6": "::/0", "all, by an address": "10.1.2.3/0",
		"IPv4 in IPv6": "::ffff:10.0.0.0/104", "no CIDR": "999.1.1.1/99",
	} {
		if got, err := ParseRanges([]string{text}); err == nil || !strings.Contains(err.Error(), "must be a CIDR") {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}
