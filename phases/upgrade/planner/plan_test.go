package planner

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/templates"
)

const awsImage = "registry.k8s.io/provider-aws/cloud-controller-manager:"

// cluster is one of 1.35 with two control planes and a worker, whose manager is that of AWS as a static pod.
func cluster(t *testing.T) Facts {
	t.Helper()
	profile, err := templates.Load("aws")
	if err != nil {
		t.Fatal(err)
	}
	rec := &state.Record{KubernetesVersion: "v1.35.4", WrittenBy: "test"}
	rec.Configuration.Provider, rec.Configuration.Mode = "aws", config.ModeStaticPod
	rec.Configuration.ControllerManager.Image = awsImage + "v1.35.2"
	controlPlane := func(name string) Node {
		return Node{
			Name: name, ControlPlane: true, Kubelet: "v1.35.4", APIServer: "v1.35.4", Manager: awsImage + "v1.35.2", Schedulable: true,
		}
	}
	return Facts{
		Asked: "v1.36.3", Oldest: "1.34", Newest: "1.36", Kubeadm: "v1.36.3", Cluster: "v1.35.4", Here: "cp2",
		Nodes:  []Node{controlPlane("cp1"), controlPlane("cp2"), {Name: "w1", Kubelet: "v1.35.4", Schedulable: true}},
		Record: rec, Profile: profile, Version: "test", Images: []string{"registry.k8s.io/kube-apiserver:v1.36.3"},
	}
}

// planned is the plan of the cluster, after something was done to it.
func planned(t *testing.T, do func(*Facts)) *Plan {
	t.Helper()
	f := cluster(t)
	if do != nil {
		do(&f)
	}
	p, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// steps are the machines and what is run there first.
func steps(p *Plan) []string {
	var list []string
	for _, s := range p.Steps {
		line := s.Node + ": " + s.What
		if len(s.Commands) > 0 {
			line = s.Node + ": " + s.Commands[len(s.Commands)-1]
		}
		list = append(list, line)
	}
	return list
}

func found(p *Plan) []string {
	var list []string
	for _, f := range p.Findings {
		list = append(list, string(f.Severity)+" "+string(f.ID)+" "+f.Object)
	}
	return list
}

func TestNew_Order(t *testing.T) {
	const node, uncordon = "ccmadm upgrade node", "kubectl uncordon "
	for _, tt := range []struct {
		name string
		do   func(*Facts)
		want []string
	}{
		{
			name: "this machine first, the manager with them, and kubelets last",
			want: []string{
				"cp2: ccmadm upgrade apply v1.36.3", "cp1: " + node,
				"cp2: " + uncordon + "cp2", "cp1: " + uncordon + "cp1", "w1: " + uncordon + "w1", ": ccmadm status",
			},
		},
		{
			name: "nothing is to be done",
			do:   func(f *Facts) { allAt(f, "v1.36.3", "v1.36.1") },
		},
		{
			name: "half upgraded: a control plane is left, and the kubelets",
			do: func(f *Facts) {
				f.Cluster, f.Nodes[1].APIServer = "v1.36.3", "v1.36.3"
			},
			want: []string{
				"cp1: " + node,
				"cp2: " + uncordon + "cp2", "cp1: " + uncordon + "cp1", "w1: " + uncordon + "w1", ": ccmadm status",
			},
		},
		{
			name: "cut short before the configuration was uploaded: apply again",
			do:   func(f *Facts) { f.Nodes[1].APIServer = "v1.36.3" },
			want: []string{
				"cp2: ccmadm upgrade apply v1.36.3", "cp1: " + node,
				"cp2: " + uncordon + "cp2", "cp1: " + uncordon + "cp1", "w1: " + uncordon + "w1", ": ccmadm status",
			},
		},
		{
			name: "only the other control plane's manager is left",
			do: func(f *Facts) {
				allAt(f, "v1.36.3", "v1.36.1")
				f.Nodes[0].Manager = awsImage + "v1.35.2"
			},
			want: []string{"cp1: ccmadm apply", ": ccmadm status"},
		},
		{
			name: "upgraded by hand: the record lags behind",
			do: func(f *Facts) {
				allAt(f, "v1.36.3", "v1.36.1")
				f.Record.KubernetesVersion = "v1.35.4"
			},
			want: []string{"cp2: ccmadm apply", ": ccmadm status"},
		},
		{
			name: "an API server whose version is not seen is not taken for upgraded",
			do: func(f *Facts) {
				allAt(f, "v1.36.3", "v1.36.1")
				f.Nodes[0].APIServer = ""
			},
			want: []string{"cp1: " + node, ": ccmadm status"},
		},
		{
			name: "a DaemonSet is one step",
			do: func(f *Facts) {
				allAt(f, "v1.36.3", "v1.35.2")
				f.Record.Configuration.Mode = config.ModeDaemonSet
			},
			want: []string{"cp2: ccmadm apply -f upgrade.yaml", ": ccmadm status"},
		},
		{
			name: "mode Manual: the manager is the user's affair",
			do: func(f *Facts) {
				allAt(f, "v1.36.3", "v1.35.2")
				f.Record.Configuration.Mode = config.ModeManual
			},
		},
		{
			name: "a patch release: the manager stays",
			do: func(f *Facts) {
				allAt(f, "v1.36.0", "v1.36.1")
				f.Record.KubernetesVersion, f.Nodes = "v1.36.3", f.Nodes[2:]
				f.Cluster = "v1.36.3"
			},
			want: []string{"w1: " + uncordon + "w1", ": ccmadm status"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := planned(t, tt.do)
			if diff := cmp.Diff(tt.want, steps(p)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if b := p.Blocked(); len(b) > 0 {
				t.Errorf("blocked: %v", found(p))
			}
		})
	}
}

// Kubeadm upgrades to its own minor alone (EnforceVersionPolicies), so that one that is newer has to be replaced, too.
func TestNew_KubeadmOfAnotherVersion(t *testing.T) {
	for installed, fits := range map[string]bool{
		"v1.36.3": true, "v1.36.4": true, "v1.36.2": false, "v1.35.4": false, "v1.37.0": false, "": false,
	} {
		p := planned(t, func(f *Facts) { f.Kubeadm = installed })
		if p.ForKubeadm() != fits || strings.HasPrefix(p.Steps[0].What, "install kubeadm v1.36.3, and ") == fits {
			t.Errorf("kubeadm %s: its own plan asked for: %v, first: %s", installed, p.ForKubeadm(), p.Steps[0].What)
		}
	}
}

// allAt has every component at a version, and every manager at a release.
func allAt(f *Facts, version, release string) {
	f.Cluster, f.Record.KubernetesVersion = version, version
	f.Record.Configuration.ControllerManager.Image = awsImage + release
	for i := range f.Nodes {
		f.Nodes[i].Kubelet = version
		if f.Nodes[i].ControlPlane {
			f.Nodes[i].APIServer, f.Nodes[i].Manager = version, awsImage+release
		}
	}
}

// hetzner's releases are for several minors, and not called like them.
func TestNew_OneReleaseForSeveral(t *testing.T) {
	f := cluster(t)
	profile, err := templates.Load("hetzner")
	if err != nil {
		t.Fatal(err)
	}
	f.Profile = profile
	image := profile.Image.Repository + ":" + profile.Image.Tags["1.35"]
	f.Record.Configuration.Provider, f.Record.Configuration.ControllerManager.Image = "hetzner", image
	for i := range f.Nodes {
		f.Nodes[i].Manager = ""
	}
	p, err := New(f)
	if err != nil || len(p.Findings) > 0 || p.Manager.Then != profile.Image.Repository+":"+profile.Image.Tags["1.36"] {
		t.Errorf("%v, %v, %+v", err, found(p), p.Manager)
	}
}

func TestPlan_JSON(t *testing.T) {
	p, err := New(cluster(t))
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"now":"v1.35.4","then":"v1.36.3"`, `"findings":[]`, `{"component":"kube-apiserver","node":"cp1","now":"v1.35.4","then":"v1.36.3"}`,
		`"then":"` + awsImage + `v1.36.1"`, `"images":["registry.k8s.io/kube-apiserver:v1.36.3","` + awsImage + `v1.36.1"]`,
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is not in\n%s", want, data)
		}
	}
}

func TestParseTarget(t *testing.T) {
	for text, ok := range map[string]bool{
		"v1.36.3": true, "1.36.3": true, "v1.36": false, "stable": false, "banana": false, "": false, "v1.36.3\n--x": false,
	} {
		if _, err := ParseTarget(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
