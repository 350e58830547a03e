package bootstrap

import (
	"cmp"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestCheckTaints(t *testing.T) {
	const taint = v1alpha1.UninitializedTaint
	const kubelet = "---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for _, tt := range []struct {
		name    string
		config  string
		flags   string
		wantErr string
	}{
		{name: "none", config: phasestest.InitConfig},
		{name: "another", config: phasestest.InitConfig + kubelet + "registerWithTaints: [{key: a, effect: NoSchedule}]\n"},
		{
			name:    "in the kubelet's configuration",
			config:  phasestest.InitConfig + kubelet + "registerWithTaints: [{key: " + taint + ", effect: NoSchedule}]\n",
			wantErr: "taints: the kubelet sets the taint",
		},
		{
			name:    "among kubeadm's",
			config:  strings.Replace(phasestest.InitConfig, "{name: cp1}", "{name: cp1, taints: [{key: "+taint+", effect: NoSchedule}]}", 1),
			wantErr: "taints: the kubelet sets the taint",
		},
		{
			name:    "among the administrator's flags",
			config:  phasestest.InitConfig,
			flags:   "KUBELET_EXTRA_ARGS=--register-with-taints=" + taint + "=true:NoSchedule\n",
			wantErr: "/etc/default/kubelet:1: --register-with-taints",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			if tt.flags != "" {
				machinetest.Put(t, m, "/etc/default/kubelet", tt.flags)
			}
			r, _ := phasestest.Run{Config: tt.config}.Must(t, m)
			phasestest.WantError(t, checkTaints(t.Context(), r), tt.wantErr, finding.ExitUsage)
		})
	}
}

func TestCheckKubeadmConfig_AsksTheInstalledKubeadm(t *testing.T) {
	m, runner := machinetest.New(t)
	var validated string
	runner.During = func(line string) {
		if path, ok := strings.CutPrefix(line, "kubeadm config validate --config "); ok {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			}
			validated = string(data)
		}
	}
	foreign := phasestest.InitConfig + "---\napiVersion: example.com/v1\nkind: Thing\n"
	r, _ := phasestest.Run{Config: foreign + "---\napiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\n"}.Must(t, m)
	if err := checkKubeadmConfig(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(validated, "InitConfiguration") || strings.Contains(validated, "Thing") || strings.Contains(validated, "CloudConf") {
		t.Errorf("kubeadm was given\n%s", validated)
	}
	runner.Fails["kubeadm config validate"] = errors.New("exit status 1")
	runner.Answers["kubeadm config validate"] = "error: strict decoding error: unknown field \"nodeRegistraton\"\nTo see the stack trace of this error execute with --v=5 or higher\n"
	phasestest.WantError(t, checkKubeadmConfig(t.Context(), r), `kubeadm config validate: strict decoding error: unknown field "nodeRegistraton"`, finding.ExitPreflight)
}

// A patch that the installed kubeadm would pass over is said before anything is done.
func TestInstalls(t *testing.T) {
	for version, want := range map[string]string{
		"v1.36.3": "1.36", "stable-1.36": "1.36", "ci/latest-1.36": "1.36", "v1.36.0-rc.1": "1.36", "stable": "1.37", "": "1.37", "latest-1": "1.37",
	} {
		if got := installs(version, "1.37"); got != want {
			t.Errorf("%q: got %s, want %s", version, got, want)
		}
	}
}

// A control plane that joins has components of the cluster's version, for which a patch may be right that is not for kubeadm's own.
func TestCheckPatches_Joins(t *testing.T) {
	m, runner := machinetest.New(t)
	runner.Answers["kubeadm version"] = "v1.37.2\n"
	const gate = `[{op: add, path: /spec/containers/0/command/-, value: "--feature-gates=SidecarContainers=true"}]`
	machinetest.Put(t, m, "/etc/patches/kube-apiserver+json.yaml", gate)
	for _, tt := range []struct {
		config string
		role   kubeadm.Role
		fails  bool
	}{{phasestest.InitConfig, kubeadm.RoleInit, true}, {phasestest.JoinConfig, kubeadm.RoleJoin, false}} {
		config := strings.Replace(tt.config, "nodeRegistration:", "patches: {directory: /etc/patches}\nnodeRegistration:", 1)
		r, _ := phasestest.Run{Config: config, Inputs: workflow.Inputs{Role: tt.role}}.Must(t, m)
		if err := checkPatches(t.Context(), r); (err != nil) != tt.fails {
			t.Errorf("%s: %v", tt.role, err)
		}
	}
}

func TestCheckPatches(t *testing.T) {
	const patch = "spec: {template: {metadata: {labels: {team: a}}}}\n"
	const named = `[{op: add, path: /spec/containers/0/command/-, value: "--controllers=*,-service-lb-controller"}]`
	for _, tt := range []struct{ version, dir, file, patch, wantErr string }{
		{version: "v1.37.2", dir: "/etc/patches", file: "kube-controller-manager+json.yaml", patch: named, wantErr: "Kubernetes 1.37 ends that"},
		{version: "v1.36.3", dir: "/etc/patches", file: "kube-controller-manager+json.yaml", patch: named},
		{version: "v1.37.2", dir: "/etc/patches", file: "kubeproxydaemonset.yaml"},
		{version: "v1.36.3", dir: "/etc/patches", file: "kubeproxydaemonset.yaml", wantErr: "which is known since 1.37"},
		{version: "v1.36.3", dir: "/etc/patches", file: "kube-apiserver.yaml"},
		{version: "v1.37.2", dir: "/etc/none", file: "kube-apiserver.yaml", wantErr: "no such file"},
		{version: "v1.37.2", file: "nothing.yaml"},
	} {
		t.Run(tt.version+" "+tt.file, func(t *testing.T) {
			m, runner := machinetest.New(t)
			runner.Answers["kubeadm version"] = tt.version + "\n"
			machinetest.Put(t, m, "/etc/patches/"+tt.file, cmp.Or(tt.patch, patch))
			config := phasestest.InitConfig
			if tt.dir != "" {
				config = strings.Replace(config, "nodeRegistration:", "patches: {directory: "+tt.dir+"}\nnodeRegistration:", 1)
			}
			r, _ := phasestest.Run{Config: config}.Must(t, m)
			err := checkPatches(t.Context(), r)
			if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %v, want %q", err, tt.wantErr)
			}
		})
	}
}
