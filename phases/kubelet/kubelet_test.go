package kubelet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// The kubelet phase by itself, for a plain `kubeadm join` that comes later.
func TestKubelet_DropIn(t *testing.T) {
	for _, tt := range []struct {
		name    string
		nodeIP  string
		file    string // of the administrator's flags
		unit    string
		want    string
		wantErr string
	}{
		{
			name:   "an address",
			nodeIP: machinetest.Address,
			want:   `KUBELET_CONFIG_ARGS="--config=/var/lib/kubelet/config.yaml --cloud-provider=external --node-ip=` + machinetest.Address + `"`,
		},
		{name: "a network", nodeIP: "198.18.0.0/15", want: "--node-ip=" + machinetest.Address + `"`},
		{name: "that of the default route", nodeIP: "Default", want: `--node-ip=0.0.0.0"`},
		{name: "the administrator's own", file: "KUBELET_EXTRA_ARGS=--node-ip=192.0.2.1\n", want: `--cloud-provider=external"`},
		{
			name: "one that it does not have", nodeIP: "192.0.2.1",
			wantErr: "node IP 192.0.2.1 is not an address of this machine (it has " + machinetest.Address + ")",
		},
		{name: "a network that it is not in", nodeIP: "10.0.0.0/8", wantErr: "no address of this machine is in 10.0.0.0/8"},
		{
			name: "a flag that wins over ours", nodeIP: machinetest.Address, file: "KUBELET_EXTRA_ARGS=--cloud-provider=aws\n",
			wantErr: `/etc/default/kubelet:1: --cloud-provider=aws: must be "external" or absent`,
		},
		{
			name: "a unit that is not kubeadm's", nodeIP: machinetest.Address, unit: "[Service]\nExecStart=/usr/bin/kubelet\n",
			wantErr: "its unit does not use $KUBELET_CONFIG_ARGS",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, runner := machinetest.New(t)
			if tt.file != "" {
				machinetest.Put(t, m, "/etc/default/kubelet", tt.file)
			}
			if tt.unit != "" {
				runner.Answers["systemctl cat kubelet"] = tt.unit
			}
			machinetest.Put(t, m, "/run/systemd/system/x", "") // systemd runs here
			r := phasestest.Run{Inputs: workflow.Inputs{Role: kubeadm.RoleJoin, Request: workflow.Request{Flags: config.CloudConfiguration{NodeIP: tt.nodeIP}}}}
			before := phasestest.Snapshot(t, m)
			out, err := r.Do(t, m, Phase())
			phasestest.WantError(t, err, tt.wantErr, finding.ExitPreflight)
			if tt.wantErr != "" {
				if diff := cmp.Diff(before, phasestest.Snapshot(t, m)); diff != "" {
					t.Errorf("files changed:\n%s", diff)
				}
				return
			}
			if env := machinetest.Content(m, machine.KubeletEnvFile); !strings.Contains(env, tt.want) {
				t.Errorf("%s is\n%s\nwant %s\n%s", machine.KubeletEnvFile, env, tt.want, out)
			}
			if machinetest.Content(m, machine.KubeletDropIn) != string(templates.KubeletDropIn()) {
				t.Error("there is no drop-in")
			}
			reloads := strings.Count(strings.Join(runner.Ran, "\n"), "daemon-reload")
			if again, err := r.Do(t, m, Phase()); err != nil || strings.Contains(again, "written") {
				t.Errorf("the second run: %v\n%s", err, again)
			}
			if after := strings.Count(strings.Join(runner.Ran, "\n"), "daemon-reload"); reloads != 1 || after != 1 {
				t.Errorf("%d and then %d reloads, want one", reloads, after)
			}
		})
	}
}

func TestKubelet_InstallUnit(t *testing.T) {
	m, runner := machinetest.New(t)
	r := phasestest.Run{Inputs: workflow.Inputs{Role: kubeadm.RoleJoin, Request: workflow.Request{InstallUnit: true, Flags: config.CloudConfiguration{NodeIP: machinetest.Address}}}}
	if out, err := r.Do(t, m, Phase()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	unit := machinetest.Content(m, machine.KubeletUnit)
	for _, want := range []string{"Restart=on-failure", "WantedBy=multi-user.target kubelet.service", " join phase kubelet\n"} {
		if !strings.Contains(unit, want) {
			t.Errorf("the unit has no %q:\n%s", want, unit)
		}
	}
	if strings.Contains(unit, "RequiredBy") {
		t.Error("a boot without a network keeps the kubelet down")
	}
	if !strings.Contains(strings.Join(runner.Ran, "\n"), "systemctl enable --quiet "+machine.KubeletUnit) {
		t.Errorf("ran %q", runner.Ran)
	}

	env := machinetest.Content(m, machine.KubeletEnvFile)
	r.Inputs.Flags.NodeIP = "10.0.0.0/8"
	m, _ = phasestest.SameMachineWithoutNetwork(t, m.Root)
	if _, err := r.Do(t, m, Phase()); err == nil {
		t.Error("no address, and no error")
	}
	if got := machinetest.Content(m, machine.KubeletEnvFile); got != env {
		t.Errorf("the flags of the last boot are gone: %q", got)
	}
}
