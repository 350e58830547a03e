package kubelet

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/templates"
)

// What a kubelet runs with stays, whoever has set it.
func TestNode_KeepsArguments(t *testing.T) {
	const (
		args = "--config=/var/lib/kubelet/config.yaml --config-dir=/etc/kubernetes/kubelet.conf.d"
		line = `Environment="KUBELET_CONFIG_ARGS=` + args + "\"\n"
	)
	for _, tt := range []struct{ name, unit, defaults string }{
		{
			name: "beside another variable",
			unit: machinetest.KubeletUnit + `Environment="GOGC=50" "KUBELET_CONFIG_ARGS=` + args + "\"\n",
		},
		{
			name: "before a comment",
			unit: machinetest.KubeletUnit + line +
				"# before: Environment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"\n",
		},
		{
			name: "in a file", unit: machinetest.KubeletUnit + "EnvironmentFile=-/etc/default/kubelet\n",
			defaults: "KUBELET_CONFIG_ARGS=" + args + "\n",
		},
		{
			name: "before an assignment without quotes",
			unit: "[Service]\n" + line + "Environment=GOGC=50\nExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS\n" +
				"EnvironmentFile=-/etc/default/kubelet\n" +
				"Environment=KUBELET_CONFIG_ARGS=--config-dir=/etc/kubernetes/kubelet.conf.d\n",
			defaults: "KUBELET_CONFIG_ARGS='" + args + "'\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, runner := phasestest.KubeletWith(t, args)
			runner.Answers["systemctl cat kubelet"] = tt.unit
			if tt.defaults != "" {
				machinetest.Put(t, m, "/etc/default/kubelet", tt.defaults)
			}
			out, err := runNode(t, m, false, machinetest.Address)
			want := `"` + args + " --cloud-provider=external --node-ip=" + machinetest.Address + `"`
			if env := machinetest.Content(m, machine.KubeletEnvFile); err != nil || !strings.Contains(env, want) {
				t.Errorf("%v\n%s%s", err, out, env)
			}
		})
	}
}

// A machine that was prepared for a provider that knows it by nothing else keeps its ID.
func TestNode_KeepsProviderID(t *testing.T) {
	m, runner := phasestest.KubeletOf(t)
	const ours = "--config=/var/lib/kubelet/config.yaml --cloud-provider=external --node-ip=" + machinetest.Address +
		" --provider-id=oci://1"
	machinetest.Put(t, m, machine.KubeletEnvFile, string(kubeletEnv(ours)))
	machinetest.Put(t, m, machine.KubeletDropIn, string(templates.KubeletDropIn()))
	runner.During("systemctl restart kubelet")
	before := phasestest.KubeletFilesOf(t, m)
	if out, err := runNode(t, m, false, machinetest.Address); err != nil || phasestest.KubeletFilesOf(t, m) != before {
		t.Errorf("%v\n%s%s", err, out, phasestest.KubeletFilesOf(t, m))
	}
}

// What the unit no longer has is gone: our file has a copy of its arguments, and no right of its own to them.
func TestNode_FollowsTheUnit(t *testing.T) {
	m, _ := phasestest.KubeletWith(t, "--config=/var/lib/kubelet/config.yaml")
	const former = "--config=/var/lib/kubelet/config.yaml --config-dir=/etc/x"
	machinetest.Put(t, m, machine.KubeletEnvFile, string(kubeletEnv(former)))
	machinetest.Put(t, m, machine.KubeletDropIn, string(templates.KubeletDropIn()))
	out, err := runNode(t, m, false, machinetest.Address)
	if err != nil || strings.Contains(phasestest.KubeletFilesOf(t, m), "/etc/x") {
		t.Errorf("%v\n%s%s", err, out, phasestest.KubeletFilesOf(t, m))
	}
}

// An argument that stands in no place any more, since somebody has changed a file, is named and holds up nothing.
func TestNode_NamesALostArgument(t *testing.T) {
	m, runner := phasestest.KubeletWith(t, "--config=/var/lib/kubelet/config.yaml --config-dir=/etc/x")
	out, err := runNode(t, m, false, machinetest.Address)
	const want = "warning: the kubelet runs without --config-dir=/etc/x, which its former process had"
	if err != nil || !strings.Contains(out, want) || phasestest.Restarts(runner) != 1 {
		t.Errorf("%d restarts, %v\n%s", phasestest.Restarts(runner), err, out)
	}
}
