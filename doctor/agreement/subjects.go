package agreement

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/templates"
)

const (
	byKubeadm  = "kubeadm's ClusterConfiguration"
	configured = "ConfigMap/kube-system/kubeadm-config"
	proxy      = "ConfigMap/kube-system/kube-proxy"
)

// subjects is the table of settings.
func (c *Cluster) subjects() []subject {
	pods := []statement{{byKubeadm, configured, c.PodSubnet, true, nil}}
	services := []statement{{byKubeadm, configured, c.ServiceSubnet, true, nil}}
	pods = append(pods, c.flags("kube-controller-manager", "cluster-cidr")...)
	services = append(services, c.flags("kube-apiserver", "service-cluster-ip-range")...)
	services = append(services, c.flags("kube-controller-manager", "service-cluster-ip-range")...)
	pods = append(pods, statement{
		place: "kube-proxy", object: proxy, value: c.ProxyCIDR, next: inProxy(`clusterCIDR: .*`, "clusterCIDR: ", cidrs),
	})
	services = append(services, statement{
		place: "ServiceCIDR kubernetes", object: "ServiceCIDR/kubernetes", value: strings.Join(c.ServiceCIDRs["kubernetes"], ","),
		next: func(string) string { return "kubectl describe servicecidr kubernetes" },
	})
	domains := []statement{
		{byKubeadm, configured, c.Domain, false, replaced("kube-system", "kubeadm-config", `dnsDomain: .*`, "dnsDomain: ", domain)},
		{
			"kubelet-config", "ConfigMap/kube-system/kubelet-config", c.KubeletDomain, false,
			replaced("kube-system", "kubelet-config", `clusterDomain: .*`, "clusterDomain: ", domain),
		},
		{"CoreDNS", "ConfigMap/kube-system/coredns", c.Zones, false, c.inCorefile},
	}
	return []subject{
		{"network of pods", "what kube-proxy takes for a pod is none, or the other way round", sameNetworks, pods},
		{"network of Services", "new Services get addresses of another network than the API server has", sameNetworks, services},
		{"domain of the cluster", "names of Services do not resolve in pods", sameDomain, append(domains, c.domains()...)},
		{
			"address of the API server", "some use, or tell machines that join, an address that the cluster does not have, or one machine for all",
			sameServer, c.servers(),
		},
	}
}

func (c *Cluster) servers() []statement {
	return []statement{
		{
			byKubeadm, configured, c.endpoint(), false,
			withPort(replaced("kube-system", "kubeadm-config", `controlPlaneEndpoint: .*`, "controlPlaneEndpoint: ", host)),
		},
		{
			"cluster-info", "ConfigMap/kube-public/cluster-info", c.InfoServer, false,
			withPort(replaced("kube-public", "cluster-info", `server: .*`, "server: https://", host)),
		},
		{"kube-proxy", proxy, c.ProxyServer, false, withPort(inProxy(`server: .*`, "server: https://", host))},
	}
}

// bindPort is that of API servers, unless kubeadm is told another one.
const bindPort = "6443"

// endpoint is that of kubeadm's configuration, with a port. Where it states none, kubeadm takes that of the API servers, which the others
// state.
func (c *Cluster) endpoint() string {
	name, port := split(c.Endpoint)
	if c.Endpoint == "" || port != "" {
		return c.Endpoint
	}
	_, info := split(c.InfoServer)
	_, proxy := split(c.ProxyServer)
	return net.JoinHostPort(name, cmp.Or(info, proxy, bindPort))
}

// withPort makes no command of a value without a port: a URL without one is of 443, and no client would reach an API server by it.
func withPort(change func(string) string) func(string) string {
	return func(value string) string {
		if _, port := split(value); port == "" {
			return ""
		}
		return change(value)
	}
}

// flags are what the static pods of a component state, each value once.
func (c *Cluster) flags(component, flag string) []statement {
	on := map[string][]string{}
	for i := range c.Static {
		if value := argument(&c.Static[i], component, flag); value != "" {
			on[value] = append(on[value], c.Static[i].Spec.NodeName)
		}
	}
	var list []statement
	for _, value := range slices.Sorted(maps.Keys(on)) {
		list = append(list, statement{
			place: component + " on " + names(on[value]), object: "Node/" + on[value][0], value: value, elsewhere: true,
		})
	}
	return list
}

func argument(p *corev1.Pod, component, flag string) string {
	if p.Labels[v1alpha1.ComponentLabel] != component || len(p.Spec.Containers) == 0 {
		return ""
	}
	a, _ := templates.LookupArg(templates.ReadArgs(*templates.OwnContainer(&p.Spec, component)), flag)
	return a.Value
}

// domains are what kubelets state, each value once.
func (c *Cluster) domains() []statement {
	on := map[string][]string{}
	for _, node := range slices.Sorted(maps.Keys(c.Kubelets)) {
		if d := c.Kubelets[node].Domain; d != "" && d != c.KubeletDomain {
			on[d] = append(on[d], node)
		}
	}
	var list []statement
	for _, value := range slices.Sorted(maps.Keys(on)) {
		list = append(list, statement{
			place: "the kubelet on " + names(on[value]), object: "Node/" + on[value][0], value: value,
			next: func(string) string { return configuredAgain(on[value][0]) },
		})
	}
	return list
}

func configuredAgain(node string) string {
	return "on " + node + ": kubeadm upgrade node phase kubelet-config, then: systemctl restart kubelet"
}

// The forms of values that may become a part of a command.
var (
	host   = regexp.MustCompile(`^[a-zA-Z0-9.:\[\]-]+$`)
	cidrs  = regexp.MustCompile(`^[0-9a-fA-F.:/,]+$`)
	domain = regexp.MustCompile(`^[a-z0-9.-]+$`)
)

// replaced is the command that gives a line of a ConfigMap another value.
func replaced(namespace, name, line, key string, form *regexp.Regexp) func(string) string {
	return func(value string) string {
		if !form.MatchString(value) {
			return ""
		}
		return fmt.Sprintf(`kubectl -n %s get configmap %s -o yaml | sed 's|^\( *\)%s|\1%s%s|' | kubectl replace -f -`,
			namespace, name, line, key, value)
	}
}

func inProxy(line, key string, form *regexp.Regexp) func(string) string {
	change := replaced("kube-system", "kube-proxy", line, key, form)
	return func(value string) string {
		if command := change(value); command != "" {
			return command + ", then: kubectl -n kube-system rollout restart daemonset/kube-proxy"
		}
		return ""
	}
}

func (c *Cluster) inCorefile(value string) string {
	first, _, _ := strings.Cut(c.Zones, " ")
	if !domain.MatchString(first) {
		return ""
	}
	return replaced("kube-system", "coredns", "kubernetes "+first, "kubernetes ", domain)(value)
}

// sameNetworks compares by family: of two families, a place may state one.
func sameNetworks(a, b string) bool {
	first, second := networks(a), networks(b)
	for _, p := range first {
		of := slices.DeleteFunc(slices.Clone(second), func(o netip.Prefix) bool { return o.Addr().Is4() != p.Addr().Is4() })
		if len(of) > 0 && !slices.Contains(of, p) {
			return false
		}
	}
	return true
}

// networks are those of a list. What is none is left out.
func networks(text string) []netip.Prefix {
	var list []netip.Prefix
	for word := range strings.SplitSeq(text, ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(word)); err == nil {
			list = append(list, p.Masked())
		}
	}
	return list
}

func sameDomain(a, b string) bool {
	others := strings.Fields(b)
	return slices.ContainsFunc(strings.Fields(a), func(d string) bool {
		return slices.ContainsFunc(others, func(o string) bool {
			return strings.EqualFold(strings.TrimSuffix(d, "."), strings.TrimSuffix(o, "."))
		})
	})
}

// sameServer compares two addresses, and the ports of one name: what a name stands for is not known here, and two may be of one server. An
// address of the machine itself is that of a proxy on each machine.
func sameServer(a, b string) bool {
	first, firstPort := split(a)
	second, secondPort := split(b)
	one, err := netip.ParseAddr(first)
	other, err2 := netip.ParseAddr(second)
	switch {
	case firstPort != "" && secondPort != "" && firstPort != secondPort && first == second:
		return false
	case (err == nil) != (err2 == nil), err == nil && (one.IsLoopback() || other.IsLoopback()), first == "localhost", second == "localhost":
		return true
	case err == nil:
		return one == other
	}
	return true
}

func split(server string) (host, port string) {
	if h, p, err := net.SplitHostPort(server); err == nil {
		return h, p
	}
	return strings.Trim(server, "[]"), ""
}

// nodesOutside finds Nodes whose network is not in that of the controller manager which gives Nodes their networks. Where it leaves that to
// another allocator, its --cluster-cidr is none of theirs.
func (c *Cluster) nodesOutside() []finding.Finding {
	var of []netip.Prefix
	place := ""
	for i := range c.Static {
		p := &c.Static[i]
		if p.Labels[v1alpha1.ComponentLabel] == components.ControllerManager && len(p.Spec.Containers) > 0 &&
			components.AllocatesNetworks(templates.OwnContainer(&p.Spec, components.ControllerManager)) {
			of, place = append(of, networks(argument(p, "kube-controller-manager", "cluster-cidr"))...), p.Spec.NodeName
		}
	}
	var outside []string
	example := ""
	for i := range c.Nodes {
		for _, own := range networks(strings.Join(c.Nodes[i].Spec.PodCIDRs, ",")) {
			if !within(own.Addr(), of) {
				outside, example = append(outside, c.Nodes[i].Name), own.String()
			}
		}
	}
	if outside = slices.Compact(outside); len(outside) == 0 {
		return nil
	}
	text := make([]string, len(of))
	for i, p := range of {
		text[i] = p.String()
	}
	f := finding.SettingsDisagree.New("Node/"+outside[0], fmt.Sprintf(
		"network of pods: the pods of %s have networks such as %s, and kube-controller-manager on %s --cluster-cidr %s: it does not "+
			"start again, and gives new Nodes others", names(outside), example, place, names(slices.Compact(text))))
	f.Next = "kubectl get nodes -o custom-columns=NODE:.metadata.name,PODS:.spec.podCIDRs"
	return []finding.Finding{f}
}

// within says that an address is in one of the networks, or that none is of its family.
func within(a netip.Addr, all []netip.Prefix) bool {
	known := false
	for _, p := range all {
		if p.Contains(a) {
			return true
		}
		known = known || p.Addr().Is4() == a.Is4()
	}
	return !known
}

// addressesOutside finds Services of the cluster with an address that the API server does not give any more.
func (c *Cluster) addressesOutside() []finding.Finding {
	var of []netip.Prefix
	for i := range c.Static {
		of = append(of, networks(argument(&c.Static[i], "kube-apiserver", "service-cluster-ip-range"))...)
	}
	if len(of) == 0 || c.CIDRsUnseen {
		return nil
	}
	stated := of[0].String()
	for _, list := range c.ServiceCIDRs {
		of = append(of, networks(strings.Join(list, ","))...)
	}
	var list []finding.Finding
	for _, object := range slices.Sorted(maps.Keys(c.Addresses)) {
		a, err := netip.ParseAddr(c.Addresses[object])
		if err != nil || within(a, of) {
			continue
		}
		f := finding.SettingsDisagree.New(object, "network of Services: its address is "+a.String()+
			", and kube-apiserver has --service-cluster-ip-range "+stated+
			": the address may be lost, and certificates of API servers that kubeadm makes do not name it")
		parts := strings.Split(strings.TrimPrefix(object, "Service/"), "/")
		f.Next = "kubectl -n " + parts[0] + " get service " + parts[len(parts)-1] + " -o yaml"
		if object == "Service/default/kubernetes" {
			f.Next = "on each control plane: openssl x509 -noout -ext subjectAltName -in " + c.PKI + "/apiserver.crt; only where all have " +
				of[0].Addr().Next().String() + ": kubectl -n default delete service kubernetes, which an API server makes again at once; " +
				"then restart all pods that use the API: they keep " + a.String() + " as KUBERNETES_SERVICE_HOST until then"
		}
		list = append(list, f)
	}
	return list
}

// resolvers finds kubelets that tell pods to ask an address which neither the cluster's configuration nor a Service has. Link-local ones
// are of a cache on the Node.
func (c *Cluster) resolvers() []finding.Finding {
	if len(c.Resolvers) == 0 || c.ServicesUnseen {
		return nil
	}
	on := map[string][]string{}
	for _, node := range slices.Sorted(maps.Keys(c.Kubelets)) {
		asked := c.Kubelets[node].DNS
		if len(asked) == 0 || slices.ContainsFunc(asked, func(text string) bool {
			a, err := netip.ParseAddr(text)
			return err != nil || a.IsLinkLocalUnicast() || a.IsLoopback() || text == c.DNS || slices.Contains(c.Resolvers, text)
		}) {
			continue
		}
		on[asked[0]] = append(on[asked[0]], node)
	}
	var list []finding.Finding
	for _, address := range slices.Sorted(maps.Keys(on)) {
		f := finding.SettingsDisagree.New("Node/"+on[address][0], fmt.Sprintf("DNS of the cluster: the kubelet on %s has clusterDNS %s, "+
			"kubelet-config %s, and no Service with port UDP 53 has that address: names do not resolve in pods of the Node",
			names(on[address]), address, finding.Clean(c.DNS)))
		f.Next = configuredAgain(on[address][0])
		list = append(list, f)
	}
	return list
}
