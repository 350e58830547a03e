package phases

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/bootstrap"
	"github.com/ccmadm/ccmadm/phases/phasestest"
)

// Between kubeadm's halves a file may be corrected where the first one has not used it.
func TestKubeadmConfig_BetweenTheHalves(t *testing.T) {
	const clusterConfig = "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n" +
		"networking: {podSubnet: 10.244.0.0/16}\napiServer: {extraArgs: [{name: v, value: '2'}]}\n"
	const kubelet = "---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 99\n"
	for _, tt := range []struct {
		name, from, to, wantErr string
	}{
		{name: "the same"},
		{
			name: "another pod subnet", from: "10.244.", to: "10.245.",
			wantErr: `ClusterConfiguration.networking.podSubnet "10.245.0.0/16": it was "10.244.0.0/16"`,
		},
		{
			name: "another argument", from: "value: '2'", to: "value: '4'",
			wantErr: `ClusterConfiguration.apiServer.extraArgs[0].value "4": it was "2"`,
		},
		{
			name: "one more field", from: "networking:", to: "kubernetesVersion: v1.36.1\nnetworking:",
			wantErr: `ClusterConfiguration.kubernetesVersion "v1.36.1": it was ""`,
		},
		{
			name: "another setting of the kubelet", from: "maxPods: 99", to: "maxPods: 100",
			wantErr: `KubeletConfiguration.maxPods "100": it was "99"`,
		},
		{
			name: "another argument of the kubelet",
			from: "{name: cp1}", to: "{name: cp1, kubeletExtraArgs: [{name: v, value: '4'}]}",
			wantErr: `InitConfiguration.nodeRegistration.kubeletExtraArgs[2].value "4": it was ""`,
		},
		{
			name: "a token, which the second half makes",
			from: "nodeRegistration:", to: "bootstrapTokens: [{ttl: 1h}]\nnodeRegistration:",
		},
		{name: "our own document", from: "provider: onprem", to: "provider: sample"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			file := phasestest.InitConfig + clusterConfig + kubelet + "---\n" + phasestest.CloudDocument + "provider: onprem\n"
			r, _ := phasestest.Run{Config: file}.Must(t, m)
			if err := bootstrap.KubeadmConfig().Do(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			machinetest.Put(t, m, machine.StateFile, phasestest.StateAt(state.StageControlPlane))
			before := machinetest.Content(m, machine.KubeadmConfig)
			r, _ = phasestest.Run{Config: strings.Replace(file, tt.from, tt.to, 1)}.Must(t, m)
			err := bootstrap.KubeadmConfig().Do(t.Context(), r)
			phasestest.WantError(t, err, tt.wantErr, finding.ExitRefused)
			if tt.wantErr != "" && machinetest.Content(m, machine.KubeadmConfig) != before {
				t.Error("kubeadm.yaml was changed")
			}
		})
	}
}
