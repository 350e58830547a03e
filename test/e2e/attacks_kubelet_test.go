package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"net"
	"testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	nodesPath      = "/api/v1/nodes"
	agentsPath     = "/apis/ccmadm.dev/v1alpha1/nodeagents"
	honestServices = "/api/v1/namespaces/default/services"
	honestSlices   = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
	systemSecrets  = "/api/v1/namespaces/kube-system/secrets"
	systemAccounts = "/api/v1/namespaces/kube-system/serviceaccounts"
)

// hasAddresses is a status of w2.
func hasAddresses(list ...string) request {
	addresses := []object{{"type": "Hostname", "address": "w2"}}
	for i := 0; i < len(list); i += 2 {
		addresses = append(addresses, object{"type": list[i], "address": list[i+1]})
	}
	return patchAt(nodesPath+"/w2/status", object{"status": object{"addresses": addresses}})
}

// trueAddresses are what the kubelet writes.
func trueAddresses() []request { return []request{hasAddresses("InternalIP", "{w2}")} }

// says is an attempt to have an address.
func says(whose, address string) attempt {
	return attempt{name: "InternalIP: " + whose, do: []request{hasAddresses("InternalIP", address)}, undo: trueAddresses()}
}

// own is what a kubelet may change in its Node's metadata and spec, and what takes it back.
func ownNode(name string, change, back object) attempt {
	return attempt{name: name, do: []request{patchAt(nodesPath+"/w2", change)}, undo: []request{patchAt(nodesPath+"/w2", back)}}
}

func labelled(key string, value any) object {
	return object{"metadata": object{"labels": object{key: value}}}
}

func annotatedWith(key string, value any) object {
	return object{"metadata": object{"annotations": object{key: value}}}
}

func kubeletAttempts() []attempt {
	return append(kubeletAddresses(), append(kubeletNode(), kubeletOthers()...)...)
}

func kubeletAddresses() []attempt {
	return []attempt{
		says("the control plane's", "{vip}"), says("the API server's machine", "{cp1}"), says("another Node's", "{w1}"),
		says("a machine's outside of the cluster", "{w3}"), says("nobody's", "{nobodys}"), says("an honest Service's", "{lan-a}"),
		says("the gateway's", "{gateway}"), says("cluster IP of the API server", "10.96.0.1"), says("a pod's of another Node", "{podofw1}"),
		says("link-local, of metadata", "169.254.169.254"), says("loopback", "127.0.0.1"), says("another Node's, mapped to IPv6", "::ffff:{w1}"),
		{
			name: "ExternalIPs: the world's, the control plane's, another machine's", undo: trueAddresses(), do: []request{
				hasAddresses("InternalIP", "{w2}", "ExternalIP", "203.0.113.7", "ExternalIP", "{vip}", "ExternalIP", "{w3}"),
			},
		},
		{name: "InternalIPs of all others behind its own", undo: trueAddresses(), do: []request{
			hasAddresses("InternalIP", "{w2}", "InternalIP", "{vip}", "InternalIP", "{w1}", "InternalIP", "{w3}", "InternalIP", "{lan-b}"),
		}},
	}
}

// kubeletNode is about its own Node.
func kubeletNode() []attempt {
	provided := v1alpha1.ProvidedNodeIPAnnotation
	ready := func(status string) request {
		return patchAt(nodesPath+"/w2/status", object{"status": object{"conditions": []object{{"type": "Ready", "status": status, "reason": "X", "message": "x"}}}})
	}
	return []attempt{
		ownNode("--node-ip of the control plane's address, by annotation", annotatedWith(provided, "{vip}"), annotatedWith(provided, "{w2}")),
		ownNode("labels of a listed machine and of a rack", labelled(v1alpha1.MachineLabel, "w1"), labelled(v1alpha1.MachineLabel, nil)),
		ownNode("unschedulable, and out of load balancers", object{
			"metadata": object{"labels": object{v1alpha1.ExcludeLabel: ""}}, "spec": object{"unschedulable": true},
		}, object{"metadata": object{"labels": object{v1alpha1.ExcludeLabel: nil}}, "spec": object{"unschedulable": nil}}),
		{name: "Ready=Unknown, and True again", do: []request{ready("Unknown"), ready("True")}},
		{name: "a control plane's label, taints, and another range of pods", denied: true, do: []request{
			patchAt(nodesPath+"/w2", labelled(v1alpha1.ControlPlaneLabel, "")),
			patchAt(nodesPath+"/w2", object{"spec": object{"taints": []object{{"key": "x", "effect": "NoExecute"}}}}),
			patchAt(nodesPath+"/w2", object{"spec": object{"podCIDR": "198.18.0.0/16", "podCIDRs": []string{"198.18.0.0/16"}}}),
		}},
	}
}

// kubeletOthers is about what belongs to others.
func kubeletOthers() []attempt {
	return []attempt{
		{name: "another Node's status, labels and deletion", denied: true, do: []request{
			patchAt(nodesPath+"/w1/status", object{"status": object{"addresses": []object{{"type": "InternalIP", "address": "{w2}"}}}}),
			patchAt(nodesPath+"/w1", labelled("a", "b")),
			{method: "DELETE", path: nodesPath + "/w1"},
			{method: "DELETE", path: nodesPath + "/w2"},
		}},
		{name: "a Node that is not its own", denied: true, do: []request{{method: "POST", path: nodesPath, body: document(object{
			"metadata": object{"name": "w9"}, "status": object{"addresses": []object{{"type": "InternalIP", "address": "{w3}"}}},
		})}}},
		{name: "reports of agents", denied: true, do: []request{
			patchAt(agentsPath+"/w2/status", object{"status": object{"gateways": []string{"{w1}"}}}),
			patchAt(agentsPath+"/w1", annotatedWith(v1alpha1.AgentSilentAnnotation, "x")),
			{method: "DELETE", path: agentsPath + "/w1"},
		}},
		{name: "status and ports of an honest Service", denied: true, do: []request{
			patchAt(honestServices+"/lan-a/status", object{"status": object{"loadBalancer": object{}}}),
			patchAt(honestServices+"/lan-a", annotatedWith(v1alpha1.ReassignAnnotation, "true")),
			{method: "DELETE", path: honestServices + "/lan-a"},
		}},
		{name: "claims, pools and peers", denied: true, do: []request{
			patchAt(claimsPath+"/{lan-a}", annotatedWith(v1alpha1.ClaimReleasedAnnotation, "2026-01-01T00:00:00Z")),
			{method: "DELETE", path: claimsPath + "/{lan-b}"},
			{method: "DELETE", path: poolsPath + "/lan"},
			patchAt(poolsPath+"/lan", object{"spec": object{"disabled": true}}),
			{method: "POST", path: peersPath, body: "{}"},
		}},
		{name: "endpoints of an honest Service, and of the API server", denied: true, do: []request{
			slice(honestSlices, "lan-a", "{w2}", 8080), slice(honestSlices, "kubernetes", "{w2}", 6443),
			patchAt(honestSlices+"/kubernetes", object{"endpoints": []object{{"addresses": []string{"{w2}"}}}}),
		}},
		{name: "status and deletion of an honest pod on another Node", denied: true, do: []request{
			patchAt("/api/v1/namespaces/default/pods/honest-lan-a/status", object{"status": object{"podIP": "{w2}"}}),
			{method: "DELETE", path: "/api/v1/namespaces/default/pods/honest-lan-a"},
		}},
		{name: "Leases of another Node and of the manager", denied: true, do: []request{
			patchAt("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/w1", object{"spec": object{"holderIdentity": "w2"}}),
			patchAt("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cloud-controller-manager", object{"spec": object{"holderIdentity": "w2"}}),
		}},
		{name: "Secrets: of BGP, of hooks, and all of them", denied: true, do: []request{
			{method: "GET", path: systemSecrets + "/" + v1alpha1.BGPSecretName},
			{method: "GET", path: systemSecrets + "/" + v1alpha1.HookSecretName},
			{method: "GET", path: systemSecrets},
		}},
		{name: "tokens of another Node's agent, of none, and of kube-proxy; another Node's certificate", denied: true, do: []request{
			signingRequest("attack-client", "kubernetes.io/kube-apiserver-client-kubelet", "client auth", "{csrofw1}"),
			{method: "POST", path: systemAccounts + "/" + v1alpha1.AgentName + "/token", body: `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"{agentofw1}","uid":"{uidofw1}"}}}`},
			{method: "POST", path: systemAccounts + "/" + v1alpha1.AgentName + "/token", body: "{}"},
			{method: "POST", path: systemAccounts + "/kube-proxy/token", body: "{}"},
		}},
		{name: "a serving certificate for the control plane's address, which nobody approves", do: []request{
			signingRequest("attack-serving", "kubernetes.io/kubelet-serving", "server auth", "{csr}"),
		}},
	}
}

func signingRequest(name, signer, usage, csr string) request {
	return request{method: "POST", path: "/apis/certificates.k8s.io/v1/certificatesigningrequests", body: document(object{
		"metadata": object{"name": name}, "spec": object{"signerName": signer, "request": csr, "usages": []string{"digital signature", usage}},
	})}
}

// certificateRequest is one for a Node, with addresses.
func certificateRequest(t *testing.T, node string, addresses ...string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: v1alpha1.NodeUserPrefix + node, Organization: []string{"system:nodes"}}}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}
