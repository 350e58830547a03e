package phases

import (
	"errors"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/machine"
	"github.com/ccmadm/ccmadm/phases/machine/machinetest"
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
			m, runner := kubeletWith(t, args)
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
	m, runner := kubeletOf(t)
	const ours = "--config=/var/lib/kubelet/config.yaml --cloud-provider=external --node-ip=" + machinetest.Address +
		" --provider-id=oci://1"
	machinetest.Put(t, m, machine.KubeletEnvFile, string(kubeletEnv(ours)))
	machinetest.Put(t, m, machine.KubeletDropIn, string(templates.KubeletDropIn()))
	runner.During("systemctl restart kubelet")
	before := kubeletFilesOf(t, m)
	if out, err := runNode(t, m, false, machinetest.Address); err != nil || kubeletFilesOf(t, m) != before {
		t.Errorf("%v\n%s%s", err, out, kubeletFilesOf(t, m))
	}
}

// Where an argument stands in no place that is known, the kubelet gets its former files back.
func TestNode_LosesNoArgument(t *testing.T) {
	m, runner := kubeletWith(t, "--config=/var/lib/kubelet/config.yaml --config-dir=/etc/x")
	before := kubeletFilesOf(t, m)
	_, err := runNode(t, m, false, machinetest.Address)
	var known *finding.Error
	if !errors.As(err, &known) || known.Code != finding.ExitError ||
		!strings.Contains(err.Error(), "it runs without --config-dir=/etc/x, which it had before; "+
			"it has its former flags again") {
		t.Error(err)
	}
	if after := kubeletFilesOf(t, m); after != before || restarts(runner) != 2 {
		t.Errorf("%d restarts\n%s", restarts(runner), after)
	}
}
