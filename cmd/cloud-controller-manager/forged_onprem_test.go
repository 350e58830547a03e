package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// coveted lists those of a cluster that somebody wants certificates of. Only r3 has no Node.
const coveted = `apiVersion: ccmadm.dev/v1alpha1
kind: Inventory
metadata: {site: ber1, serial: 1}
policy: {unknownNodes: adopt}
machines:
- {id: c1, hostname: cp1, addresses: [{type: InternalIP, address: 198.18.1.10}, {type: ExternalIP, address: 198.18.5.209}]}
- {id: r1, hostname: w1, addresses: [{type: InternalIP, address: 198.18.1.1}, {type: InternalDNS, address: w1.ber1.example}]}
- {id: r2, hostname: w2, addresses: [{type: InternalIP, address: 198.18.1.2}]}
- {id: r3, hostname: away, addresses: [{type: InternalIP, address: 198.18.1.3}]}
- {id: r4, hostname: w3.nodes.example, addresses: [{type: InternalIP, address: 198.18.1.4}]}
`

// believed is what the administrator believes unlisted Nodes.
const believed = "--serving-certificate-ranges=198.18.5.0/24"

// newOnprem starts the manager. Its Nodes have addresses of a range in which a kubelet is believed, unless they are listed.
func newOnprem(t *testing.T, config string) *trial {
	t.Helper()
	permitted(t, "onprem", templates.StaticPod)
	kubeconfig, err := plane.Kubeconfig(v1alpha1.StaticPodUser)
	if err != nil {
		t.Fatal(err)
	}
	tr := newTrial(t)
	start(t, kubeconfig, "--cloud-config="+config, "--approve-serving-certificates", "--node-status-update-frequency=1s", believed,
		"--serving-certificate-names=*.nodes.example")
	return tr
}

// With the credentials of kubelets and a bootstrap token, and with an inventory, nothing forged is approved and signed, and all
// that is honest is.
func TestCluster_ForgedCertificates(t *testing.T) {
	publish(t, coveted)
	tr := newOnprem(t, cloudConfig(t))
	honest := map[string]string{"cp1": "198.18.1.10", "w1": "198.18.1.1", "w2": "198.18.1.2", "w3.nodes.example": "198.18.1.4"}
	tr.join(honest)
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:""}}}`, v1alpha1.ControlPlaneLabel)
	if _, err := tr.admin.CoreV1().Nodes().Patch(t.Context(), "cp1", types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	tr.attacks(honest)
	tr.serves("cp1", "198.18.5.209") // a control plane has the address of the API server

	// A Node by a name that is listed for a machine, and Nodes whose kubelets claim its address, take nothing from it.
	tr.join(map[string]string{"w1.ber1.example": "198.18.5.70", "claimant": "198.18.5.71"})
	onlyRegisters(t, "twin", "198.18.1.1")
	tr.claim("claimant", "198.18.1.1")
	tr.forge(
		forgery{what: "the name of a listed machine", as: "w1.ber1.example", want: "NameNotProven"},
		forgery{what: "an address that it claims by annotation", as: "claimant", ip: "198.18.1.1", want: "AddressTaken"},
		forgery{what: "an address that it registers with", as: "twin", ip: "198.18.1.1", want: "NotInitialized"},
	)
	tr.serves("w1", "198.18.1.1", "w1.ber1.example")
	tr.serves("w2", "198.18.1.2")
	tr.expect(100)
}

// The same without an inventory, where kubelets are believed within ranges and below a domain.
func TestCluster_ForgedCertificatesWithoutInventory(t *testing.T) {
	config := filepath.Join(t.TempDir(), "cloud.conf")
	const content = "apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\nsite: ber1\n"
	if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	tr := newOnprem(t, config)
	honest := map[string]string{"w1": "198.18.5.1", "w2": "198.18.5.2", "w3.nodes.example": "198.18.5.3"}
	tr.join(honest)
	tr.attacks(honest)

	// Of two that claim one address none is proven: both wait until one of them is gone.
	tr.join(map[string]string{"claimant": "198.18.5.71"})
	tr.claim("claimant", "198.18.5.1,198.18.5.2,198.18.5.3")
	tr.forge(forgery{what: "more addresses than --node-ip takes", as: "claimant", ip: "198.18.5.1", want: "WrongNodeIP"})
	tr.serves("w1", "198.18.5.1")
	tr.claim("claimant", "198.18.5.1")
	tr.forge(forgery{what: "an address that it claims by annotation", as: "claimant", ip: "198.18.5.1", want: "AddressTaken"})
	waits := asks(t, tr.kubelet("w1"), "w1", "198.18.5.1", nil)
	staysPending(t, waits, "AddressTaken")
	tr.serves("w2", "198.18.5.2")
	tr.delete("claimant")
	tr.serves("w1", "198.18.5.1")
	becomesApproved(t, waits)

	// A kubelet that comes back under another name waits until the Node of its former name is gone.
	tr.join(map[string]string{"before": "198.18.5.80", "after": "198.18.5.80"})
	waits = asks(t, tr.kubelet("after"), "after", "198.18.5.80", nil)
	staysPending(t, waits, "AddressTaken")
	tr.delete("before")
	tr.serves("after", "198.18.5.80")
	becomesApproved(t, waits)
	tr.expect(100)
}

// attacks makes all requests that need no inventory, while the honest kubelets ask, too.
func (tr *trial) attacks(honest map[string]string) {
	tr.Helper()
	list := append(asked(), tr.presented()...)
	nodes := map[string]string{"w2.evil.example": "198.18.5.60", "flooder": "198.18.5.61", "ghost": "198.18.5.62"}
	for i := range list {
		evil := fmt.Sprintf("evil-%d", i/3) // of each requester the three newest are judged
		list[i].as, list[i].ip = evil, fmt.Sprintf("198.18.5.%d", 100+i/3)
		nodes[evil] = list[i].ip
	}
	for i, f := range ownNames() {
		nodes[f.as] = fmt.Sprintf("198.18.5.%d", 10+i)
		list = append(list, f)
	}
	list = append(list, strangers()...)
	passes(tr.T, metav1.Now()) // a Node is older than another by its second
	tr.join(nodes)
	waiting := tr.ask(list...)
	for range 2 {
		for node, ip := range honest {
			tr.serves(node, ip)
		}
	}
	tr.held(waiting)
	tr.floods("flooder", "198.18.5.1", honest)
	tr.deleted()
}

// strangers are requests of those that have no such Node.
func strangers() []forgery {
	return []forgery{
		{what: "a bootstrap token for w1", node: "w1", want: "WrongRequester"},
		{what: "a bootstrap token for itself", node: "w1", want: "WrongRequester", change: func(r *req, _ *csrSpec) {
			r.Subject.CommonName = "system:bootstrap:abcdef"
		}},
		{what: "a Node that does not exist", as: "nobody", ip: "198.18.5.99", want: "NoNode"},
		{what: "a Node that cannot exist", as: "../w1", want: "WrongRequester", change: func(r *req, _ *csrSpec) {
			r.DNSNames = []string{"w1"}
		}},
		{what: "a Node in capitals", as: "W1", want: "WrongRequester"},
		{what: "another Node, by its kubelet", as: "flooder", node: "w1", want: denied},
		{what: "w2 below the domain", as: "w2.evil.example", want: "NameNotOfNode", change: func(r *req, _ *csrSpec) {
			r.DNSNames = []string{"w2.nodes.example"}
		}},
	}
}

// presented are requests for all that is in the certificate of the API server.
func (tr *trial) presented() []forgery {
	tr.Helper()
	address := strings.Trim(strings.TrimPrefix(plane.Config.Host, "https:"), "/")
	c, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(tr.Context(), "tcp", address)
	if err != nil {
		tr.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	served := c.(*tls.Conn).ConnectionState().PeerCertificates[0]
	if len(served.DNSNames) == 0 || len(served.IPAddresses) == 0 {
		tr.Fatalf("the API server's certificate has names %v and addresses %v", served.DNSNames, served.IPAddresses)
	}
	var list []forgery
	for _, name := range served.DNSNames {
		list = append(list, of("the API server's name "+name, "ReservedName|NameNotOfNode", func(r *req) {
			r.DNSNames = append(r.DNSNames, name)
		}))
	}
	for _, ip := range served.IPAddresses {
		list = append(list, of("the API server's address", "ReservedAddress|AddressNotOfNode", func(r *req) {
			r.IPAddresses = append(r.IPAddresses, ip)
		}))
	}
	return list
}
