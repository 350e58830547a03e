package planner

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// row is what a plan of the cluster finds, after something was done to it.
type row struct {
	name string
	do   func(*Facts)
	want []string
	says string // in one of the messages, or its next step
}

func (tt row) run(t *testing.T) {
	t.Run(tt.name, func(t *testing.T) {
		p := planned(t, tt.do)
		if diff := cmp.Diff(tt.want, found(p)); diff != "" {
			t.Errorf("findings (-want +got):\n%s", diff)
		}
		var text bytes.Buffer
		if err := p.WriteText(&text); err != nil || !strings.Contains(text.String(), tt.says) {
			t.Errorf("%v; it does not say %q:\n%s", err, tt.says, text.String())
		}
		for _, f := range p.Findings {
			if _, known := finding.Lookup(string(f.ID)); !known {
				t.Errorf("%s is not in the catalogue", f.ID)
			}
		}
	})
}

func TestNew_Target(t *testing.T) {
	for _, tt := range []row{
		{name: "nothing"},
		{
			name: "an older version", do: func(f *Facts) { f.Asked = "1.34.4" },
			want: []string{"error U1 "}, says: "does not go back",
		},
		{
			name: "two minors up", do: func(f *Facts) { allAt(f, "v1.34.4", "v1.34.3") },
			want: []string{"error U1 ", "error U3 "}, says: "upgrade to 1.35 first",
		},
		{name: "a pre-release", do: func(f *Facts) { f.Asked = "v1.36.0-rc.1" }, want: []string{"error U1 "}, says: "pre-release"},
		{
			name: "a minor that ccmadm does not know",
			do: func(f *Facts) {
				allAt(f, "v1.36.3", "v1.36.1")
				f.Asked, f.Image = "v1.37.0", "registry.example/mine:1"
			},
			want: []string{"error U1 "}, says: "knows Kubernetes 1.34 to 1.36",
		},
		{
			name: "half upgraded",
			do:   func(f *Facts) { f.Nodes[0].APIServer = "v1.36.3" },
			want: []string{"warning U8 "}, says: "v1.35.4 to v1.36.3",
		},
		{
			name: "a kubelet that is newer than an API server",
			do:   func(f *Facts) { f.Nodes[2].Kubelet = "v1.36.3" },
			want: []string{"warning U10 Node/w1"},
		},
		{
			name: "a control plane's kubelet that is a patch release newer",
			do: func(f *Facts) {
				allAt(f, "v1.36.3", "v1.36.1")
				f.Nodes[0].Kubelet = "v1.36.9"
			},
		},
		{
			name: "a control plane's kubelet that is a minor newer",
			do: func(f *Facts) {
				allAt(f, "v1.36.3", "v1.36.1")
				f.Nodes[0].Kubelet = "v1.37.0"
			},
			want: []string{"error U10 Node/cp1"}, says: "newer than v1.36.3",
		},
		{
			name: "nobody takes kubeadm's Job",
			do: func(f *Facts) {
				for i := range f.Nodes {
					f.Nodes[i].Refuses = v1alpha1.UninitializedTaint
				}
			},
			want: []string{"error U6 "}, says: "cp1 has node.cloudprovider.kubernetes.io/uninitialized",
		},
		{
			name: "all are cordoned: kubeadm leaves its Job out",
			do: func(f *Facts) {
				for i := range f.Nodes {
					f.Nodes[i].Schedulable, f.Nodes[i].Refuses = false, "node.kubernetes.io/unschedulable"
				}
			},
		},
		{
			name: "a patch with an argument that is refused",
			do: func(f *Facts) {
				gone := finding.FlagGone.New("", "etcd does not know it")
				gone.File = "/p/etcd.yaml"
				f.Patches = []finding.Finding{gone}
			},
			want: []string{"error U4 "}, says: "remove it from /p/etcd.yaml: etcd does not know it",
		},
		{
			name: "what is wrong with the cluster already",
			do: func(f *Facts) {
				f.Troubles = []finding.Finding{finding.NoLeader.New("Lease/kube-system/cloud-controller-manager", "nobody leads")}
			},
			want: []string{"error W7 Lease/kube-system/cloud-controller-manager"},
		},
	} {
		tt.run(t)
	}
}

func TestNew_Manager(t *testing.T) {
	for _, tt := range []row{
		{
			name: "no release of the provider",
			do:   func(f *Facts) { p := *f.Profile; delete36(&p); f.Profile = &p },
			want: []string{"error U2 "}, says: "--image IMAGE",
		},
		{
			name: "no release, and an image that the user names",
			do:   func(f *Facts) { p := *f.Profile; delete36(&p); f.Profile, f.Image = &p, "registry.example/mine:1" },
		},
		{
			name: "an image that somebody has chosen",
			do:   func(f *Facts) { f.Record.Configuration.ControllerManager.Image = "registry.example/mine:1" },
			want: []string{"warning U9 registry.example/mine:1"}, says: "is kept",
		},
		{
			name: "a patch release that is not in the table",
			do: func(f *Facts) {
				f.Record.Configuration.ControllerManager.Image = "mirror/cloud-controller-manager:v1.35.9"
			},
		},
		{
			name: "a manager that is newer than an API server",
			do:   func(f *Facts) { f.Nodes[0].Manager = awsImage + "v1.36.1" },
			want: []string{"error U3 Node/cp1"}, says: "newer than the API server, v1.35.4",
		},
		{
			name: "a control plane on which no static pod of it is seen, behind one that is upgraded",
			do: func(f *Facts) {
				f.Cluster, f.Nodes[1].APIServer, f.Nodes[1].Manager = "v1.36.3", "v1.36.3", awsImage+"v1.36.1"
				f.Record.Configuration.ControllerManager.Image, f.Record.KubernetesVersion = awsImage+"v1.36.1", "v1.36.3"
				f.Nodes[0].Manager = ""
			},
			want: []string{"warning U8 "}, says: "ccmadm upgrade node",
		},
		{
			name: "a manager that would be two minors behind",
			do:   func(f *Facts) { f.Record.Configuration.ControllerManager.Image = awsImage + "v1.34.3" },
			want: []string{"error U3 "}, says: "its release for 1.35 first",
		},
	} {
		tt.run(t)
	}
}

func TestNew_Uses(t *testing.T) {
	use := func(u Use) func(*Facts) { return func(f *Facts) { f.Uses = append(f.Uses, u) } }
	for _, tt := range []row{
		{
			name: "an argument of the API server",
			do:   use(Use{Component: APIServer, Name: "cloud-provider", Value: "external", Where: "ConfigMap/kube-system/kubeadm-config"}),
			want: []string{"error A6 ConfigMap/kube-system/kubeadm-config"},
		},
		{
			name: "the same in a manifest that kubeadm writes anew",
			do:   use(Use{Component: APIServer, Name: "cloud-config", Where: "Pod/kube-system/kube-apiserver-cp1", Node: "cp1", Rewritten: true}),
			want: []string{"warning A6 Pod/kube-system/kube-apiserver-cp1"},
		},
		{
			name: "a provider of the controller manager's",
			do:   use(Use{Component: ControllerManager, Name: "cloud-provider", Value: "aws", Where: "x"}),
			want: []string{"error A7 x"},
		},
		{name: "external is none", do: use(Use{Component: ControllerManager, Name: "cloud-provider", Value: "external", Where: "x"})},
		{
			name: "another allocator",
			do:   use(Use{Component: ControllerManager, Name: "cidr-allocator-type", Value: "CloudAllocator", Where: "x"}),
			want: []string{"error A7 x"},
		},
		{
			name: "an argument without effect",
			do:   use(Use{Component: ControllerManager, Name: "cloud-config", Value: "/x", Where: "x"}),
			want: []string{"warning A18 x"},
		},
		{
			name: "controllers that are gone",
			do:   use(Use{Component: ControllerManager, Name: "controllers", Value: "*,-service,-route", Where: "x"}),
			want: []string{"warning A9 x"}, says: "Kubernetes 1.37 ends that",
		},
		{
			name: "a file of kubelet arguments",
			do:   use(Use{Component: Kubelet, Name: "cloud-config", Value: "/x", Where: "/etc/default/kubelet:1", Node: "cp2"}),
			want: []string{"error A5 cp2:/etc/default/kubelet:1"},
		},
		{
			name: "an argument that the minor before has taken away",
			do:   use(Use{Component: Kubelet, Name: "pod-infra-container-image", Value: "pause", Where: "/etc/default/kubelet:1", Node: "cp2"}),
			want: []string{"error U4 cp2:/etc/default/kubelet:1"},
		},
		{
			name: "a feature gate",
			do:   use(Use{Component: Kubelet, Name: GatePrefix + "MemoryManager", Value: "true", Where: "ConfigMap/kube-system/kubelet-config"}),
			want: []string{"error U5 ConfigMap/kube-system/kubelet-config"}, says: "kubelet 1.36 does not know the feature gate MemoryManager, which was removed in 1.36",
		},
		{
			name: "the same, and a version that knows it still",
			do: func(f *Facts) {
				use(Use{Component: Kubelet, Name: GatePrefix + "MemoryManager", Where: "x"})(f)
				f.Asked = "v1.35.5"
			},
		},
		{
			name: "a feature gate of kubeadm's own",
			do:   use(Use{Component: Kubeadm, Name: GatePrefix + "ControlPlaneKubeletLocalMode", Where: "x"}),
			want: []string{"warning U5 x"}, says: "passes over it",
		},
		{
			name: "a patch release asks for no look at files",
			do:   func(f *Facts) { f.Unseen, f.Asked = []string{"w1"}, "v1.35.9" },
		},
		{
			name: "kubelets whose files cannot be seen",
			do:   func(f *Facts) { f.Unseen = []string{"w1", "cp1"} },
			want: []string{"warning U7 "}, says: "arguments or feature gates cannot be seen from here, of cp1, w1",
		},
	} {
		tt.run(t)
	}
}

// to137 is a cluster of 1.36 without anything that 1.37 does not take.
func to137(f *Facts) {
	allAt(f, "v1.36.3", "v1.36.1")
	f.Asked, f.Kubeadm, f.Image, f.Newest = "v1.37.2", "v1.37.2", "registry.example/mine:1.37", "1.37"
}

// TestNew_To137 plants what 1.37 breaks, as people have it; and nothing.
func TestNew_To137(t *testing.T) {
	const live, kubelets = "ConfigMap/kube-system/kubeadm-config", "ConfigMap/kube-system/kubelet-config"
	gate := func(c Component, name, value, where string) Use {
		return Use{Component: c, Name: GatePrefix + name, Value: value, Where: where}
	}
	planted := []struct {
		use  Use
		want string
	}{
		{Use{Component: ControllerManager, Name: "concurrent-service-syncs", Value: "2", Where: live}, "error U4 " + live},
		{Use{Component: ControllerManager, Name: "controllers", Value: "*,-service-lb-controller", Where: live}, "error A9 " + live},
		{Use{Component: ControllerManager, Name: "controllers", Value: "*,-route", Where: live, Cleaned: true}, "warning A9 " + live},
		{Use{Component: Etcd, Name: "experimental-initial-corrupt-check", Value: "true", Where: live}, "error U4 " + live},
		{Use{Component: Etcd, Name: "experimental-watch-progress-notify-interval", Value: "5s", Where: live}, "error U4 " + live},
		{Use{Component: Etcd, Name: "discovery", Value: "https://x", Where: live}, "error U4 " + live},
		{Use{Component: Kubelet, Name: "containerd-namespace", Value: "k8s.io", Where: "/etc/default/kubelet:1", Node: "cp2"}, "error U4 cp2:/etc/default/kubelet:1"},
		{Use{Component: Kubelet, Name: "storage-driver-db", Value: "x", Where: "/etc/default/kubelet:2", Node: "cp2"}, "error U4 cp2:/etc/default/kubelet:2"},
		{gate(Kubelet, "SidecarContainers", "true", kubelets), "error U5 " + kubelets},
		{gate(Kubelet, "PreventStaticPodAPIReferences", "false", kubelets), "error U5 " + kubelets},
		{gate(Kubelet, "PodLifecycleSleepAction", "true", kubelets), "error U5 " + kubelets},
		{gate(APIServer, "AnonymousAuthConfigurableEndpoints", "true", live), "error U5 " + live},
		{gate(APIServer, "StructuredAuthenticationConfiguration", "true", live), "error U5 " + live},
		{gate(ControllerManager, "JobSuccessPolicy", "true", live), "error U5 " + live},
		{gate(Scheduler, "SchedulerQueueingHints", "true", live), "error U5 " + live},
		{gate(Proxy, "SidecarContainers", "true", "ConfigMap/kube-system/kube-proxy"), "error U5 ConfigMap/kube-system/kube-proxy"},
		{gate(APIServer, "HostnameOverride", "false", live), "error U15 " + live},
		{gate(Kubelet, "PLEGOnDemandRelist", "false", kubelets), "error U15 " + kubelets},
		{gate(Kubeadm, "PublicKeysECDSA", "true", live), "warning U5 " + live},
	}
	for _, tt := range planted {
		row{
			name: string(tt.use.Component) + " " + tt.use.Name, do: func(f *Facts) { to137(f); f.Uses = append(f.Uses, tt.use) },
			want: []string{tt.want},
		}.run(t)
	}
	row{name: "nothing", do: to137}.run(t)
	row{
		name: "kube-proxy as kubeadm has it", do: func(f *Facts) { to137(f); f.Proxy, f.ProxyMode = "v1.36.3", "iptables" },
		want: []string{"note U20 ConfigMap/kube-system/kube-proxy"},
	}.run(t)
	row{
		name: "kube-proxy without a mode", do: func(f *Facts) { to137(f); f.Proxy = "v1.36.3" },
		want: []string{"note U20 ConfigMap/kube-system/kube-proxy"}, says: "which stands for iptables; Kubernetes 1.40 ends that",
	}.run(t)
	row{name: "kube-proxy in mode nftables", do: func(f *Facts) { to137(f); f.Proxy, f.ProxyMode = "v1.36.3", "nftables" }}.run(t)
	row{
		name: "what 1.38 and 1.40 end, and what 1.37 does otherwise",
		do: func(f *Facts) {
			to137(f)
			f.Nodes[0].Runtime, f.Nodes[1].Runtime, f.ProxyMode, f.EventsUnset = "containerd://1.7.27", "containerd://2.1.5", "ipvs", true
			f.ExternalIPs = []string{"default/web"}
		},
		want: []string{"warning U16 ", "warning U17 ConfigMap/kube-system/kube-proxy", "warning U18 ", "warning U19 " + kubelets},
		says: "cp1 (containerd://1.7.27)",
	}.run(t)
}

// delete36 takes the release for 1.36 out of a copy of a profile.
func delete36(p *templates.Profile) {
	tags := map[string]string{}
	for minor, tag := range p.Image.Tags {
		if minor != "1.36" {
			tags[minor] = tag
		}
	}
	p.Image.Tags = tags
}
