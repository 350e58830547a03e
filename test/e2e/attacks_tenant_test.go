package e2e

import (
	"encoding/json"
	"maps"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	tenantServices = "/api/v1/namespaces/tenant/services"
	tenantSlices   = "/apis/discovery.k8s.io/v1/namespaces/tenant/endpointslices"
	claimsPath     = "/apis/networking.k8s.io/v1/ipaddresses"
	poolsPath      = "/apis/ccmadm.dev/v1alpha1/addresspools"
	peersPath      = "/apis/ccmadm.dev/v1alpha1/bgppeers"
)

// object is a part of a document.
type object = map[string]any

func document(o object) string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings, numbers, lists and objects
	}
	return string(text)
}

// service creates a Service of the tenant, whose pod answers "thief".
func service(name string, port int, annotations map[string]string, fields object) request {
	spec := object{
		"type": "LoadBalancer", "selector": object{"app": "thief"}, "allocateLoadBalancerNodePorts": false,
		"ports": []object{{"name": "a", "port": port, "targetPort": 8080}},
	}
	maps.Copy(spec, fields)
	if spec["type"] != "LoadBalancer" || fields["healthCheckNodePort"] != nil {
		delete(spec, "allocateLoadBalancerNodePorts")
	}
	return request{method: "POST", path: tenantServices, body: document(object{
		"metadata": object{"name": name, "annotations": annotations}, "spec": spec,
	})}
}

func asks(address string) map[string]string {
	return map[string]string{v1alpha1.AddressesAnnotation: address}
}

func onNodesWith(annotations ...string) map[string]string {
	m := map[string]string{v1alpha1.LevelAnnotation: string(v1alpha1.LevelNodeIP)}
	for i := 0; i < len(annotations); i += 2 {
		m[annotations[i]] = annotations[i+1]
	}
	return m
}

// patchAt changes something.
func patchAt(path string, o object) request {
	return request{method: "PATCH", path: path, body: document(o)}
}

// allowed is a request that is allowed.
func allowed(r request) request {
	r.prepares = true
	return r
}

// gone has the administrator delete a Service, so that what it has is free for the next attempt.
func gone(name string) []request {
	return []request{{method: "DELETE", path: tenantServices + "/" + name}, untilHas(tenantServices+"/"+name, `"code": 404`)}
}

// untilHas waits until what is at the path has a text.
func untilHas(path, text string) request {
	return request{method: waits, path: path, body: text, prepares: true}
}

// slice is an EndpointSlice of a Service.
func slice(path, service, address string, port int) request {
	return request{method: "POST", path: path, body: document(object{
		"metadata":    object{"generateName": "x-", "labels": object{"kubernetes.io/service-name": service}},
		"addressType": "IPv4", "endpoints": []object{{"addresses": []string{address}}}, "ports": []object{{"name": "a", "port": port}},
	})}
}

func tenantAttempts() []attempt {
	return append(tenantAddresses(), tenantRest()...)
}

// tenantAddresses are Services that ask for what others have.
func tenantAddresses() []attempt {
	ingress := object{"loadBalancer": object{"ingress": []object{{"ip": "{vip}"}}}}
	withStatus := service("status", 6443, nil, nil)
	withStatus.body = withStatus.body[:len(withStatus.body)-1] + `,"status":` + document(ingress) + `}`
	plain := func(name string) request { return allowed(service(name, 6443, nil, object{"type": "ClusterIP"})) }
	return []attempt{
		{name: "an honest Service's address, by annotation", do: []request{service("a1", 80, asks("{lan-a}"), nil)}},
		{name: "the control plane's address, by annotation", do: []request{service("a2", 6443, asks("{vip}"), nil)}},
		{name: "the control plane's address, by loadBalancerIP", do: []request{service("a3", 6443, nil, object{"loadBalancerIP": "{vip}"})}},
		{name: "a Node's address, by MetalLB's annotation", do: []request{
			service("a4", 22, map[string]string{"metallb.io/loadBalancerIPs": "{w1}"}, nil),
		}},
		{name: "another machine's address, by Cilium's annotation", do: []request{
			service("a5", 22, map[string]string{"lbipam.cilium.io/ips": "{w3}"}, nil),
		}},
		{name: "the control plane's address, mapped to IPv6", do: []request{service("a6", 6443, asks("::ffff:{vip}"), nil)}},
		{name: "the gateway's address", do: []request{service("a7", 53, asks("{gateway}"), nil)}},
		{name: "an honest Service's address, as if it were allocated, with reassign", do: []request{
			service("a8", 80, map[string]string{v1alpha1.AllocatedAnnotation: "{lan-a}", v1alpha1.ReassignAnnotation: "true"}, nil),
		}, own: true, undo: gone("a8")},
		{name: "the control plane's address, as if it were allocated", do: []request{
			service("a9", 6443, map[string]string{v1alpha1.AllocatedAnnotation: "{vip}"}, nil),
		}, own: true, undo: gone("a9")},
		{name: "an honest Service's address, by our loadBalancerClass", do: []request{
			service("a10", 80, asks("{lan-b}"), object{"loadBalancerClass": v1alpha1.LoadBalancerClass}),
		}},
		{name: "externalIPs of a new Service", denied: true, do: []request{
			service("a11", 6443, nil, object{"type": "ClusterIP", "externalIPs": []string{"{vip}"}}),
		}},
		{name: "externalIPs by an edit", denied: true, do: []request{
			plain("a12"), patchAt(tenantServices+"/a12", object{"spec": object{"externalIPs": []string{"{cp1}"}}}),
		}},
		{name: "externalIPs with a change of type", denied: true, do: []request{
			plain("a13"), patchAt(tenantServices+"/a13", object{"spec": object{"type": "LoadBalancer", "externalIPs": []string{"{lan-a}"}}}),
		}},
		{name: "status, by its subresource", denied: true, do: []request{
			plain("a14"), patchAt(tenantServices+"/a14/status", object{"status": ingress}),
		}},
		{name: "status, of a new Service", do: []request{withStatus}, own: true, undo: gone("status")},
		{name: "the share key of an honest Service", do: []request{
			service("a16", 81, map[string]string{v1alpha1.AddressesAnnotation: "{lan-a}", v1alpha1.ShareKeyAnnotation: "common"}, nil),
		}},
	}
}

// tenantRest takes other ways.
func tenantRest() []attempt {
	claim := object{
		"metadata": object{"name": "{vip}", "labels": object{"ipaddress.kubernetes.io/managed-by": v1alpha1.ClaimManager}},
		"spec":     object{"parentRef": object{"resource": "services", "namespace": "tenant", "name": "a2"}},
	}
	pod := func(name string, spec object) request {
		maps.Copy(spec, object{"nodeName": "w1"})
		return request{method: "POST", path: "/api/v1/namespaces/tenant/pods", body: document(object{"metadata": object{"name": name}, "spec": spec})}
	}
	anyPort := onNodesWith(v1alpha1.PortsAnnotation, "any")
	held := patchAt(tenantServices+"/held", object{"metadata": object{"finalizers": []string{"example.com/hold"}}})
	return []attempt{
		{name: "a claim of its own, and the deletion of another's", denied: true, do: []request{
			{method: "POST", path: claimsPath, body: document(claim)}, {method: "DELETE", path: claimsPath + "/{lan-a}"},
		}},
		{name: "an AddressPool, a BGPPeer, and the end of the pool", denied: true, do: []request{
			{method: "POST", path: poolsPath, body: document(object{
				"apiVersion": v1alpha1.APIVersion, "kind": "AddressPool", "metadata": object{"name": "mine"}, "spec": object{"ranges": []string{"{w3}"}},
			})},
			{method: "POST", path: peersPath, body: document(object{
				"apiVersion": v1alpha1.APIVersion, "kind": "BGPPeer", "metadata": object{"name": "mine"}, "spec": object{"address": "{w3}", "asn": 64512},
			})},
			{method: "DELETE", path: poolsPath + "/lan"},
		}},
		{name: "EndpointSlices of the API server, of a kubelet, of loopback and of link-local", denied: true, do: []request{
			slice(tenantSlices, "a1", "{cp1}", 6443), slice(tenantSlices, "a1", "{w1}", 10250), slice(tenantSlices, "a1", "127.0.0.1", 2379),
			slice(tenantSlices, "a1", "169.254.169.254", 80),
			slice("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", "kubernetes", "{w2}", 6443),
		}},
		{name: "a pod in the machine's network, one with a port of the machine, an exec elsewhere", denied: true, do: []request{
			pod("host", object{"hostNetwork": true, "containers": []object{{"name": "a", "image": "a"}}}),
			pod("port", object{"containers": []object{{"name": "a", "image": "a", "ports": []object{{"containerPort": 8080, "hostPort": 6443}}}}}),
			{method: "POST", path: "/api/v1/namespaces/default/pods/honest-lan-a/exec?command=sh"},
		}},
		{name: "labels of its Namespace that permit more", denied: true, do: []request{
			patchAt("/api/v1/namespaces/tenant", object{"metadata": object{"labels": object{v1alpha1.PortsLabel: "allow", v1alpha1.ExternalIPsLabel: "allow"}}}),
		}},
		{name: "level NodeIP, the API server's port", do: []request{service("n1", 6443, onNodesWith(), nil)}},
		{name: "level NodeIP, the kubelet's port, any", do: []request{service("n2", 10250, anyPort, nil)}},
		{name: "level NodeIP, SSH and etcd by an edit, any", denied: true, own: true, undo: gone("n3"), do: []request{
			allowed(service("n3", 8443, anyPort, nil)),
			untilHas(tenantServices+"/n3", `"ingress"`), // without it no port is taken by an edit
			patchAt(tenantServices+"/n3", object{"spec": object{"ports": []object{{"name": "a", "port": 22}, {"name": "b", "port": 2379}}}}),
		}},
		{name: "level NodeIP, an honest Service's port", do: []request{service("n4", 80, onNodesWith(), nil)}},
		{name: "level NodeIP, a port on which a program listens, any", undo: gone("n5"), do: []request{service("n5", 9100, anyPort, nil)}},
		{name: "an honest Service's NodePort and healthCheckNodePort", denied: true, do: []request{
			service("p1", 80, nil, object{"type": "NodePort", "ports": []object{{"port": 80, "nodePort": "{nodeport}"}}}),
			service("p2", 80, nil, object{"externalTrafficPolicy": "Local", "healthCheckNodePort": "{nodeport}"}),
		}},
		{name: "an honest Service's cluster IP, and the control plane's address as one", denied: true, do: []request{
			service("c1", 80, nil, object{"type": "ClusterIP", "clusterIP": "{clusterip}"}),
			service("c2", 6443, nil, object{"type": "ClusterIP", "clusterIP": "{vip}"}),
		}},
		{name: "Services with odd names, and one beside DNS", denied: true, do: []request{
			service("../../default/services/lan-a", 80, asks("{lan-a}"), nil), service("lan-a.default", 80, asks("{lan-a}"), nil),
			service("a\nb", 80, asks("{lan-a}"), nil),
			{method: "POST", path: "/api/v1/namespaces/kube-system/services", body: document(object{
				"metadata": object{"name": "dns"}, "spec": object{"ports": []object{{"port": 53}}, "clusterIP": "10.96.0.10"},
			})},
		}},
		{name: "a finalizer that keeps a Service while its address goes to another", do: []request{
			allowed(service("held", 80, nil, nil)), untilHas(tenantServices+"/held", `"ingress"`), allowed(held), {method: "DELETE", path: tenantServices + "/held"},
		}},
	}
}
