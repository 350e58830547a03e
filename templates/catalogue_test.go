package templates

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/minors"
)

// What vendors' own programs were seen to do, and the profiles once had otherwise.

func TestCatalogue_NodeNames(t *testing.T) {
	tests := []struct {
		provider string
		metadata map[string]string
		want     []string
	}{
		{ // it asks for the exact name of a droplet: an address is not found
			provider: "digitalocean",
			metadata: map[string]string{"hostname": "web-1", "privateIP": "10.0.0.2", "publicIP": "192.0.2.2", "id": "7"},
			want:     []string{"web-1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.provider, func(t *testing.T) {
			got, err := builtIn(t, tt.provider).Node.ExpandName(tt.metadata)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCatalogue_Environment(t *testing.T) {
	tests := []struct {
		name, provider string
		files          []string
		podSubnet      string
		want           map[string]string // a value, or the key of a credential
	}{
		{
			name:     "digitalocean's metrics stay on the machine",
			provider: "digitalocean",
			files:    []string{"access-token"},
			want:     map[string]string{"DO_ACCESS_TOKEN": "access-token", "METRICS_ADDR": "127.0.0.1:9191"},
		},
		{
			name:     "digitalocean is told its region, and needs no metadata service",
			provider: "digitalocean",
			files:    []string{"access-token", "region"},
			want: map[string]string{
				"DO_ACCESS_TOKEN": "access-token",
				"METRICS_ADDR":    "127.0.0.1:9191",
				"REGION":          "region",
			},
		},
		{
			name:     "hetzner's metrics stay on the machine",
			provider: "hetzner",
			files:    []string{"token", "network"},
			want: map[string]string{
				"HCLOUD_TOKEN":                  "token",
				"HCLOUD_NETWORK":                "network",
				"HCLOUD_NETWORK_ROUTES_ENABLED": "false",
				"HCLOUD_METRICS_ADDRESS":        "127.0.0.1:8233",
			},
		},
		{
			name:      "hetzner in a dual-stack cluster, whose kubelets have an address of each family",
			provider:  "hetzner",
			files:     []string{"token"},
			podSubnet: "10.244.0.0/16,fd00:10:244::/56",
			want: map[string]string{
				"HCLOUD_TOKEN":                    "token",
				"HCLOUD_NETWORK_ROUTES_ENABLED":   "false",
				"HCLOUD_INSTANCES_ADDRESS_FAMILY": "dualstack",
				"HCLOUD_METRICS_ADDRESS":          "127.0.0.1:8233",
			},
		},
		{
			name:      "hetzner in an IPv6 cluster",
			provider:  "hetzner",
			files:     []string{"token"},
			podSubnet: "fd00:10:244::/56",
			want: map[string]string{
				"HCLOUD_TOKEN":                    "token",
				"HCLOUD_NETWORK_ROUTES_ENABLED":   "false",
				"HCLOUD_INSTANCES_ADDRESS_FAMILY": "ipv6",
				"HCLOUD_METRICS_ADDRESS":          "127.0.0.1:8233",
			},
		},
		{
			name:     "hetzner on dedicated servers, which have no metadata service to ask for the network",
			provider: "hetzner",
			files:    []string{"token", "network", "robot-enabled"},
			want: map[string]string{
				"HCLOUD_TOKEN":                          "token",
				"HCLOUD_NETWORK":                        "network",
				"HCLOUD_NETWORK_ROUTES_ENABLED":         "false",
				"HCLOUD_METRICS_ADDRESS":                "127.0.0.1:8233",
				"ROBOT_ENABLED":                         "robot-enabled",
				"HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK": "robot-enabled",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := builtIn(t, tt.provider)
			env, err := p.ExpandEnv(p.Container, Values{Mode: DaemonSet, Files: tt.files, PodSubnet: tt.podSubnet}, "secret")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, sources(env)); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

// What programs find by a variable: files, or values of the Secret.
func TestCatalogue_EnvironmentFiles(t *testing.T) {
	tests := []struct {
		provider string
		mode     Mode
		files    []string
		want     map[string]string
	}{
		{"proxmox", StaticPod, []string{"config.yaml"}, map[string]string{}},
		{"proxmox", StaticPod, []string{"config.yaml", "ca.crt"}, map[string]string{"SSL_CERT_FILE": "/etc/kubernetes/cloud-config/ca.crt"}},
		{"talos", DaemonSet, []string{"talosconfig"}, map[string]string{"TALOSCONFIG": "/etc/kubernetes/cloud-config/talosconfig"}},
		{"harvester", StaticPod, []string{"cloud-config"}, map[string]string{"KUBECONFIG": "/etc/kubernetes/cloud-controller-manager.conf"}},
		{"harvester", DaemonSet, []string{"cloud-config"}, map[string]string{}}, // its own client is then the pod's ServiceAccount
		{"stackit", StaticPod, []string{"cloud.yaml", "sa_key.json"}, map[string]string{
			"STACKIT_SERVICE_ACCOUNT_KEY_PATH": "/etc/kubernetes/cloud-config/sa_key.json",
		}},
		{"outscale", DaemonSet, []string{"access_key", "secret_key"}, map[string]string{
			"OSC_ACCESS_KEY": "access_key", "OSC_SECRET_KEY": "secret_key",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.provider+" "+string(tt.mode), func(t *testing.T) {
			p := builtIn(t, tt.provider)
			env, err := p.ExpandEnv(p.Container, Values{Mode: tt.mode, Files: tt.files}, "secret")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, sources(env)); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

// sources says of each variable its value, or from which key of the Secret it comes.
func sources(env []corev1.EnvVar) map[string]string {
	from := map[string]string{}
	for _, e := range env {
		from[e.Name] = e.Value
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			from[e.Name] = e.ValueFrom.SecretKeyRef.Key
		}
	}
	return from
}

// A credential is asked for by one name, though two variables take it.
func TestCatalogue_CredentialEnv(t *testing.T) {
	want := map[string]string{
		"token":          "HCLOUD_TOKEN",
		"network":        "HCLOUD_NETWORK",
		"robot-enabled":  "ROBOT_ENABLED",
		"robot-user":     "ROBOT_USER",
		"robot-password": "ROBOT_PASSWORD",
	}
	if diff := cmp.Diff(want, builtIn(t, "hetzner").CredentialEnv()); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestCatalogue_Releases(t *testing.T) {
	tests := []struct{ provider, kubernetes, want string }{
		{"oci", "v1.36.1", "ghcr.io/oracle/cloud-provider-oci:v1.35.0"}, // its table of versions has no upper bound
		{"oci", "v1.37.2", "ghcr.io/oracle/cloud-provider-oci:v1.35.0"},
		{"aws", "v1.37.2", "registry.k8s.io/provider-aws/cloud-controller-manager:v1.37.0"},
		{"vsphere", "v1.37.2", "registry.k8s.io/cloud-pv-vsphere/cloud-provider-vsphere:v1.37.0"},
		{"outscale", "v1.36.1", "docker.io/outscale/cloud-provider-osc:v1.36.7"},
		{"stackit", "v1.35.2", "ghcr.io/stackitcloud/cloud-provider-stackit/cloud-controller-manager:v1.35.6"},
		{"gcp", "v1.35.2", "registry.k8s.io/cloud-provider-gcp/cloud-controller-manager:v35.0.8"},
	}
	for _, tt := range tests {
		t.Run(tt.provider+" "+tt.kubernetes, func(t *testing.T) {
			got, err := builtIn(t, tt.provider).ImageRef(Values{KubernetesVersion: tt.kubernetes})
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A profile without a release for the newest Kubernetes is known to be late, and that is no failure: vendors follow within weeks.
// The error has to say what was looked at and what to do, and a profile that has caught up may not say that it is late.
func TestCatalogue_KnownLate(t *testing.T) {
	for _, name := range Names() {
		p := builtIn(t, name)
		if len(p.Image.Tags) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			_, err := p.ImageRef(Values{KubernetesVersion: minors.Newest()})
			newest := p.Image.Minors()[0]
			if newest == minors.Newest() {
				if err != nil || p.Image.Late != "" {
					t.Errorf("it has a release for Kubernetes %s: error %v, and image.late says %q", newest, err, p.Image.Late)
				}
				return
			}
			why := "none was seen when the profile was compared, on " + p.Checked.Date
			if p.Image.Late != "" {
				why = p.Image.Late
				checkError(t, err, "("+why+")")
			}
			t.Logf("known late: no release for Kubernetes %s: %s", minors.Newest(), why)
			checkError(t, err, "for Kubernetes "+minors.Newest()+" is known")
			checkError(t, err, fmt.Sprintf("the nearest is %s (%s): set controllerManager.version (--image-tag)", newest, p.Image.Tags[newest]))
		})
	}
}

// Traps in which nodes are lost, or credentials, are named.
func TestCatalogue_KnownIssues(t *testing.T) {
	words := map[string][]string{
		"aws":          {"NodeIPFamilies = ipv6"},
		"vsphere":      {"ipFamily: [ipv4, ipv6]"},
		"azure":        {"with vmType standard", "nodeInstanceNotFoundGracePeriodInSeconds"},
		"cloudstack":   {"cloudstack-kubernetes-provider#94", "--image-tag v1.1.1", "Nodes of deleted instances stay"},
		"digitalocean": {"not those with GPUs"},
		"gcp":          {"a node of another zone is not initialized, and deleted"},
		"harvester":    {"would watch all ConfigMaps", "--management-network", "kube-vip"},
		"huawei":       {"127.0.1.1", "else the bare server ID"},
		"ibm":          {"openshift/cloud-provider-powervs"},
		"linode":       {"--subnet-names", "v0.9.7 or newer"},
		"nutanix":      {"every Secret of kube-system", "providerid:<value>"},
		"outscale":     {"OscK8sClusterID", "no ClusterID found"},
		"proxmox":      {"no longer begins with the Node's name", "Every kubelet has a --node-ip"},
		"scaleway":     {"From 1.35 on the addresses of every private network card"},
		"stackit":      {"--controllers=service-lb-controller", "with --v=6 only"},
		"talos":        {"A machine of kubeadm has no such API"},
		"vultr":        {"would watch all Secrets"},
		"xenorchestra": {"no internal address", "an administrator of Xen Orchestra"},
	}
	for _, provider := range slices.Sorted(maps.Keys(words)) {
		t.Run(provider, func(t *testing.T) {
			p := builtIn(t, provider)
			said := strings.Join(slices.Concat(p.Gotchas, p.Requirements,
				[]string{p.Home, p.Node.Name, p.Node.ProviderID, p.Image.Rule}), "\n")
			for _, want := range words[provider] {
				if !strings.Contains(said, want) {
					t.Errorf("nothing is said of %q in\n%s", want, said)
				}
			}
		})
	}
}

func builtIn(t *testing.T, name string) *Profile {
	t.Helper()
	p, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Kubelets of machines of EC2 ask for certificates with these names. The public ones differ between partitions.
func TestCatalogue_ServingNames(t *testing.T) {
	names := builtIn(t, "aws").ServingNames
	for _, name := range []string{
		"ip-10-0-0-1.ec2.internal", "i-0abc.eu-west-1.compute.internal", "ip-10-0-0-1.cn-north-1.compute.internal",
		"ec2-203-0-113-7.compute-1.amazonaws.com", "ec2-203-0-113-7.eu-west-1.compute.amazonaws.com",
		"ec2-203-0-113-7.cn-north-1.compute.amazonaws.com.cn",
	} {
		if !slices.ContainsFunc(names, func(p string) bool { return strings.HasSuffix(name, strings.TrimPrefix(p, "*")) }) {
			t.Errorf("%s is not among %q", name, names)
		}
	}
}
