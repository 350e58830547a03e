package serving

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"net/netip"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// nodesGroup is that of all kubelets.
const nodesGroup = "system:nodes"

// maxLifetime is what kube-controller-manager gives by default, and more than any kubelet asks for.
const maxLifetime = 366 * 24 * time.Hour

// most is how many names and addresses a kubelet may ask for. Machines have a few.
const most = 100

// request is what the kubelet of a Node asks for.
type request struct {
	node  string
	names []string // in lower case, each once
	ips   []netip.Addr
}

// parse returns what is asked for, or as a *Hold what no kubelet asks for. It is stricter than the signer, which passes
// on any further attribute of the subject, and leaves out extensions.
func parse(csr *certificatesv1.CertificateSigningRequest) (*request, error) {
	node, ok := strings.CutPrefix(csr.Spec.Username, v1alpha1.NodeUserPrefix)
	switch {
	case csr.Spec.SignerName != certificatesv1.KubeletServingSignerName:
		return nil, hold("WrongSigner", "it is for signer %s", csr.Spec.SignerName)
	case !ok || node == "" || !slices.Contains(csr.Spec.Groups, nodesGroup):
		return nil, hold("WrongRequester", "it comes from %s, which is not the kubelet of a Node", csr.Spec.Username)
	case len(validation.IsDNS1123Subdomain(node)) > 0:
		return nil, hold("WrongRequester", "it comes from %q: no Node can have that name", csr.Spec.Username)
	case !servingUsages(csr.Spec.Usages):
		return nil, hold("WrongUsages", "it asks for usages %v: a kubelet serves with digital signature, key encipherment and "+
			"server auth", csr.Spec.Usages)
	case csr.Spec.ExpirationSeconds != nil && time.Duration(*csr.Spec.ExpirationSeconds)*time.Second > maxLifetime:
		return nil, hold("TooLong", "it asks for %d seconds, more than a year", *csr.Spec.ExpirationSeconds)
	}
	asked, err := decode(csr.Spec.Request)
	if err != nil {
		return nil, err
	}
	if err := checkSubject(asked, csr.Spec.Username); err != nil {
		return nil, err
	}
	if err := checkExtensions(asked); err != nil {
		return nil, err
	}
	r := &request{node: node}
	for _, name := range asked.DNSNames {
		r.names = append(r.names, strings.ToLower(name))
	}
	slices.Sort(r.names)
	r.names = slices.Compact(r.names)
	for _, ip := range asked.IPAddresses {
		addr, ok := netip.AddrFromSlice(ip)
		if !ok {
			return nil, hold("Malformed", "it requests an invalid address")
		}
		r.ips = append(r.ips, addr.Unmap())
	}
	slices.SortFunc(r.ips, netip.Addr.Compare)
	r.ips = slices.Compact(r.ips)
	return r, nil
}

// servingUsages are the two sets that the signer knows; the second is for keys that are not RSA.
func servingUsages(usages []certificatesv1.KeyUsage) bool {
	got := slices.Compact(slices.Sorted(slices.Values(usages)))
	return slices.Equal(got, []certificatesv1.KeyUsage{
		certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth,
	}) || slices.Equal(got, []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth})
}

// decode reads the one block of PEM, and checks that who signed it has the key.
func decode(text []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, hold("Malformed", "it is not one block of PEM")
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, hold("Malformed", "it cannot be read: %v", err)
	}
	if err := asked.CheckSignature(); err != nil {
		return nil, hold("Malformed", "it is not signed with the key that it is for: %v", err)
	}
	return asked, nil
}

// checkSubject wants the requester's name, the group of kubelets, and nothing else.
func checkSubject(asked *x509.CertificateRequest, username string) error {
	subject := asked.Subject
	switch {
	case subject.CommonName != username:
		return hold("WrongName", "it is for %s, and comes from %s", subject.CommonName, username)
	case !slices.Equal(subject.Organization, []string{nodesGroup}):
		return hold("WrongOrganization", "its organization is %v: that of a kubelet is %s", subject.Organization, nodesGroup)
	case len(subject.Names) != 2:
		return hold("WrongName", "its subject has more than a name and an organization: %s", subject)
	}
	return nil
}

// checkExtensions wants names and addresses, and nothing else: neither what Go's parser knows (e-mail addresses, URIs)
// nor what it leaves out.
func checkExtensions(asked *x509.CertificateRequest) error {
	if len(asked.EmailAddresses) > 0 || len(asked.URIs) > 0 {
		return hold("WrongNames", "it asks for e-mail addresses %v and URIs %v: a kubelet has names and addresses",
			asked.EmailAddresses, asked.URIs)
	}
	known := len(asked.DNSNames) + len(asked.IPAddresses)
	if known == 0 {
		return hold("WrongNames", "it asks for no name and no address")
	}
	if known > most {
		return hold("WrongNames", "it asks for %d names and addresses, more than %d", known, most)
	}
	for _, extension := range asked.Extensions {
		if !extension.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) { // subjectAltName
			return hold("WrongExtension", "it asks for extension %s", extension.Id)
		}
		var all []asn1.RawValue
		if _, err := asn1.Unmarshal(extension.Value, &all); err != nil || len(all) != known {
			return hold("WrongNames", "it asks for something beside names and addresses")
		}
	}
	return nil
}
