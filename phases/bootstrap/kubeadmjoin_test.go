package bootstrap

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestJoinArgs(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config string
		args   []string
		begun  bool
		files  map[string]string
		want   string
	}{
		{
			name: "a run that was cut short before the kubelet had its identity",
			files: map[string]string{
				machine.BootstrapConf: "x",
				machine.StateFile:     strings.Replace(phasestest.StateAt(state.StageBegun), "role: init\nnodeName: cp1", "role: join\nnodeName: w1", 1),
			},
			want: "join --config=/etc/ccmadm/kubeadm.yaml --skip-phases=preflight",
		},
		{
			name:  "what another join has left is kubeadm's to refuse",
			files: map[string]string{machine.BootstrapConf: "x"},
			want:  "join --config=/etc/ccmadm/kubeadm.yaml",
		},
		{name: "the first run", want: "join --config=/etc/ccmadm/kubeadm.yaml"},
		{name: "a run that was cut short", begun: true, want: "join --config=/etc/ccmadm/kubeadm.yaml --skip-phases=preflight"},
		{
			name: "cut short, with phases that the file skips", begun: true, config: "skipPhases: [control-plane-join/etcd]\n",
			want: "join --config=/etc/ccmadm/kubeadm.yaml --skip-phases=preflight,control-plane-join/etcd",
		},
		{
			name: "phases that a flag skips", args: []string{"--skip-phases=kubelet-start"},
			want: "join --config=/etc/ccmadm/kubeadm.yaml --skip-phases=kubelet-start",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			if tt.begun {
				machinetest.Put(t, m, machine.KubeletConf, "x")
			}
			for path, text := range tt.files {
				machinetest.Put(t, m, path, text)
			}
			r, _ := phasestest.Run{Config: phasestest.JoinConfig + tt.config, Args: tt.args, Inputs: workflow.Inputs{Role: kubeadm.RoleJoin}}.Must(t, m)
			got, err := joinArgs(r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}
