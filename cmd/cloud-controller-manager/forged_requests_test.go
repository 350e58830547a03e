package main

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"net"
	"net/url"

	certificatesv1 "k8s.io/api/certificates/v1"
)

type req = x509.CertificateRequest

// of is a request that differs in what is in it.
func of(what, want string, change func(*req)) forgery {
	return forgery{what: what, want: want, change: func(r *req, _ *csrSpec) { change(r) }}
}

// ownNames are what somebody with a bootstrap token calls a Node, to ask for that name. The administrator believes names below
// nodes.example.
func ownNames() []forgery {
	var list []forgery
	for want, names := range map[string][]string{
		"NameNotProven": {
			"api.prod.example.com", "oidc.corp.example", "nodes.example", "evilnodes.example", "nodes.example.evil", "db.default",
			"xn--vult-53d", "xn--nodes-9ya.example",
		},
		"WrongNames": {"10.96.0.1", "10.1", "127.1", "0177.0.0.1", "0x7f.1", "0x7f000001", "2130706433", "0x"},
		"ReservedName": {
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "db.default.svc", "localhost",
			"localhost.localdomain", "ip6-localhost", "vault", "hook.nodes.example", "spare.nodes.example", "eu.api.nodes.example",
			"api.nodes.example", "oidc.nodes.example", "etcd.nodes.example",
		},
		"AddressTaken": {"w1.nodes.example", "w3"}, // of Node/w1 and Node/w3.nodes.example
	} {
		for _, name := range names {
			list = append(list, forgery{what: "a Node that is called " + name, as: name, want: want})
		}
	}
	return list
}

// asked are requests of a kubelet for what is not its Node's.
func asked() []forgery {
	var list []forgery
	add := func(want, what string, change func(*req)) { list = append(list, of(what, want, change)) }
	for _, name := range []string{
		"*", "*.nodes.example", "w2.", "[2001:db8::1]", "fe80::1%eth0", "::ffff:198.18.1.2", "198.18.1.2", "w_2", "w2\x00.nodes.example", " w2",
	} {
		add("WrongNames", fmt.Sprintf("name %q", name), func(r *req) { r.DNSNames = append(r.DNSNames, name) })
	}
	for _, name := range []string{"w2", "W2", "w2.nodes.example", "cp1", "db.nodes.example", "xn--w2-lmd", "hook.nodes.example"} {
		add("NameNotOfNode", fmt.Sprintf("name %q", name), func(r *req) { r.DNSNames = append(r.DNSNames, name) })
	}
	for _, ip := range []string{
		"198.18.1.2", "198.18.1.3", "198.18.5.209", "198.18.5.210", "10.0.0.1", "127.0.0.1", "::1", "fe80::1", "169.254.169.254", "0.0.0.0",
		"224.0.0.1", "64:ff9b::c612:102",
	} {
		add("AddressNotOfNode|ReservedAddress", "address "+ip, func(r *req) {
			r.IPAddresses = append(r.IPAddresses, net.ParseIP(ip))
		})
	}
	add("AddressNotOfNode", "an IPv4 address as an IPv6 one", alternativeNames(append([]byte{0x87, 16}, net.ParseIP("198.18.1.2")...)))
	add(denied, "an address of five bytes", alternativeNames([]byte{0x87, 5, 198, 18, 1, 2, 0}))
	add(denied, "letters that are not ASCII", alternativeNames([]byte("\x82\x06v\xd0\xb0ult")))
	add("WrongNames", "a name of a kind that Go does not know",
		alternativeNames([]byte("\x82\x02w2\xa0\x09\x06\x02\x2a\x03\xa0\x03\x0c\x01x")))
	return append(append(list, subjects()...), usages()...)
}

// alternativeNames asks for the encoded ones.
func alternativeNames(encoded []byte) func(*req) {
	return func(r *req) {
		r.ExtraExtensions = []pkix.Extension{{
			Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: append([]byte{0x30, byte(len(encoded))}, encoded...),
		}}
	}
}

// subjects are requests under other names than the requester's, or with more than names and addresses.
func subjects() []forgery {
	return []forgery{
		of("another Node's subject", denied, func(r *req) {
			r.Subject.CommonName = "system:node:w2"
		}),
		of("an administrator's subject", denied, func(r *req) {
			r.Subject.CommonName = "kubernetes-admin"
		}),
		of("its own subject, and a space", denied, func(r *req) { r.Subject.CommonName += " " }),
		of("no subject", denied, func(r *req) { r.Subject = pkix.Name{} }),
		of("two names", "WrongName", func(r *req) {
			r.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "kube-apiserver"}, {
				Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: r.Subject.CommonName, // Go reads the last one
			}}
		}),
		of("a unit", "WrongName", func(r *req) { r.Subject.OrganizationalUnit = []string{"x"} }),
		of("administrators' organization", "WrongOrganization", func(r *req) {
			r.Subject.Organization = []string{"system:masters"}
		}),
		of("two organizations", "WrongOrganization", func(r *req) {
			r.Subject.Organization = append(r.Subject.Organization, "system:masters")
		}),
		of("an e-mail address", "WrongNames", func(r *req) { r.EmailAddresses = []string{"root@w2"} }),
		of("a URI", "WrongNames", func(r *req) {
			r.URIs = []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/kube-system/sa/default"}}
		}),
		of("to be a CA", "WrongExtension", func(r *req) {
			r.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}
		}),
		of("500 names", "WrongNames", func(r *req) {
			for i := range 500 {
				r.DNSNames = append(r.DNSNames, fmt.Sprintf("vault-%d", i))
			}
		}),
		of("nothing", "WrongNames", func(r *req) { r.DNSNames, r.IPAddresses = nil, nil }),
		{what: "ten years", want: "TooLong", change: func(_ *req, s *csrSpec) { s.ExpirationSeconds = new(int32(315360000)) }},
	}
}

// usages are requests for what a kubelet does not serve with, and of other signers.
func usages() []forgery {
	asks := func(want string, usages ...certificatesv1.KeyUsage) forgery {
		return forgery{what: fmt.Sprintf("usages %v", usages), want: want, change: func(_ *req, s *csrSpec) { s.Usages = usages }}
	}
	signs := func(signer, node string, want string, groups ...string) forgery {
		return forgery{what: fmt.Sprintf("%s for %s in %v", signer, node, groups), want: want, change: func(r *req, s *csrSpec) {
			s.SignerName, s.Usages = signer, []certificatesv1.KeyUsage{"digital signature", "client auth"}
			r.Subject, r.DNSNames, r.IPAddresses = pkix.Name{CommonName: node, Organization: groups}, nil, nil
		}}
	}
	return []forgery{
		asks("WrongUsages", "digital signature", "client auth"),
		asks("WrongUsages", "digital signature", "server auth", "client auth"),
		asks("WrongUsages", "digital signature", "server auth", "any"),
		asks("WrongUsages", "digital signature", "server auth", "cert sign"),
		asks("WrongUsages", "server auth"),
		asks(denied),
		signs(certificatesv1.KubeAPIServerClientSignerName, "admin", denied, "system:masters"),
		signs(certificatesv1.KubeAPIServerClientSignerName, "system:kube-controller-manager", unseen),
		signs(certificatesv1.KubeAPIServerClientKubeletSignerName, "system:node:w2", denied, "system:nodes"),
		signs("kubernetes.io/legacy-unknown", "system:node:w2", denied, "system:nodes"),
		signs("example.com/serving", "system:node:w2", unseen, "system:nodes"),
	}
}
