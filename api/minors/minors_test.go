package minors

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each minor has its table, of the release that its module pins: a newer patch release may know another flag.
func TestLoad(t *testing.T) {
	files, err := filepath.Glob("upstream/*.json")
	if err != nil || len(files) != len(Known()) {
		t.Errorf("%d tables for %d minors (%v)", len(files), len(Known()), err)
	}
	for _, e := range Load() {
		var readable Minor
		data, err := os.ReadFile(filepath.Join("upstream", e.Name+".json"))
		if err == nil {
			err = json.Unmarshal(data, &readable)
		}
		if err != nil || !reflect.DeepEqual(readable, e.Minor) {
			t.Errorf("the JSON of %s and the compressed table differ (%v): bin/lab minors %s", e.Name, err, e.Name)
		}
		gomod, err := os.ReadFile(filepath.Join("../../test/lab/kubernetes-"+e.Name, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for module, want := range map[string]string{"k8s.io/kubernetes": e.Kubernetes, "go.etcd.io/etcd/server/v3": e.EtcdServer} {
			if !regexp.MustCompile(`(?m)^(require)?\s*` + regexp.QuoteMeta(module+" "+want) + `( // indirect)?$`).Match(gomod) {
				t.Errorf("the table of %s is of %s %s, its module is not: bin/lab minors %s", e.Name, module, want, e.Name)
			}
		}
		for _, component := range []string{
			"etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet",
		} {
			if len(e.Flags[component]) < 40 {
				t.Errorf("%s of %s has %d flags", component, e.Name, len(e.Flags[component]))
			}
		}
		if len(e.FeatureGates) < 200 || e.Kubeadm.API["kubeadm.k8s.io/v1beta4"]["ClusterConfiguration"] == nil {
			t.Errorf("%s: %d feature gates, API %v", e.Name, len(e.FeatureGates), e.Kubeadm.API)
		}
	}
}

// A plan asks for every flag of a thousand kubelets, and lint with each document: the tables are parsed for the first.
func TestLoad_Once(t *testing.T) {
	Load()
	if allocated := testing.AllocsPerRun(10, func() { Load() }); allocated > 0 {
		t.Errorf("%.0f allocations for tables that were read before", allocated)
	}
}

func TestWindow(t *testing.T) {
	known := Known()
	if !slices.IsSortedFunc(known, strings.Compare) || len(Supported()) != supported || Newest() != known[len(known)-1] {
		t.Errorf("known %v, supported %v", known, Supported())
	}
	for version, want := range map[string]string{"v1.36.3": "1.36", "1.35": "1.35", "v1.38.0-alpha.2": "1.38"} {
		if got, err := Of(version); err != nil || got != want {
			t.Errorf("Of(%s) = %s, %v", version, got, err)
		}
	}
	if _, err := Of("latest"); err == nil {
		t.Error("latest has a minor")
	}
}

// What upstream's release notes say, against what its programs print.
func TestRefused(t *testing.T) {
	h := Load()
	for _, tt := range []struct{ component, flag, minor, want string }{
		{"kube-controller-manager", "concurrent-service-syncs", "1.36", ""},
		{"kube-controller-manager", "concurrent-service-syncs", "1.37", "kube-controller-manager 1.37 does not know --concurrent-service-syncs, which was removed in 1.37"},
		{"kubelet", "pod-infra-container-image", "1.34", ""},
		{"kubelet", "pod-infra-container-image", "1.36", "kubelet 1.36 does not know --pod-infra-container-image, which was removed in 1.35"},
		{"kubelet", "containerd-namespace", "1.37", "kubelet 1.37 does not know --containerd-namespace, which was removed in 1.37"},
		{"kubelet", "housekeeping-interval", "1.37", ""},
		{"etcd", "experimental-initial-corrupt-check", "1.37", "etcd 1.37 does not know --experimental-initial-corrupt-check, which was removed in 1.37"},
		{"kube-apiserver", "no-such", "1.37", "kube-apiserver 1.37 does not know --no-such"},
		{"kube-apiserver", "v", "1.37", ""},
		{"kube-apiserver", "no-such", "1.99", ""},
		{"cloud-controller-manager", "no-such", "1.37", ""},
	} {
		if _, got := h.Flag(tt.component, tt.flag, tt.minor); got != tt.want {
			t.Errorf("%s --%s at %s: %q, want %q", tt.component, tt.flag, tt.minor, got, tt.want)
		}
	}
	for _, tt := range []struct{ component, gate, value, minor, want string }{
		{"kubelet", "SidecarContainers", "true", "1.36", ""},
		{"kubelet", "SidecarContainers", "true", "1.37", "kubelet 1.37 does not know the feature gate SidecarContainers, which was removed in 1.37"},
		{"kubelet", "MemoryManager", "true", "1.37", "kubelet 1.37 does not know the feature gate MemoryManager, which was removed in 1.36"},
		{"kube-apiserver", "HostnameOverride", "true", "1.37", ""},
		{"kube-apiserver", "HostnameOverride", "false", "1.37", "kube-apiserver 1.37 does not take HostnameOverride=false: the feature gate is locked to true"},
		{"kube-apiserver", "HostnameOverride", "false", "1.36", ""},
		{"kube-apiserver", "AllAlpha", "true", "1.37", ""},
		{"kube-apiserver", "AllBeta", "true", "1.37", ""},
		{"kubelet", "AllowOverwriteTerminationGracePeriodSeconds", "true", "1.36", "kubelet 1.36 does not take AllowOverwriteTerminationGracePeriodSeconds=true: the feature gate is locked to false"},
		{"kube-apiserver", "AllowServiceLBStatusOnNonLB", "true", "1.36", "kube-apiserver 1.36 does not know the feature gate AllowServiceLBStatusOnNonLB, which was removed in 1.35"},
		{"etcd", "InitialCorruptCheck", "true", "1.37", ""},
	} {
		if _, got := h.Gate(tt.component, tt.gate, tt.value, tt.minor); got != tt.want {
			t.Errorf("%s %s=%s at %s: %q, want %q", tt.component, tt.gate, tt.value, tt.minor, got, tt.want)
		}
	}
	if _, got := h.KubeadmGate("ControlPlaneKubeletLocalMode", "1.36"); !strings.Contains(got, "removed in 1.36") {
		t.Error(got)
	}
	for version, reads := range map[string][]string{
		"kubeadm.k8s.io/v1beta3": {"1.34", "1.35", "1.36"},
		"kubeadm.k8s.io/v1beta4": {"1.34", "1.35", "1.36", "1.37"},
		"kubeadm.k8s.io/v1":      {"1.37"},
	} {
		for _, minor := range Known() {
			if got := h.ReadsKubeadmAPI(version, minor); got != slices.Contains(reads, minor) {
				t.Errorf("kubeadm %s reads %s: %t", minor, version, got)
			}
		}
	}
}
