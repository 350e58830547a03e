package adoption

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Adopt may run on a control plane that came by `ccmadm join`, and again on one that it has adopted.
func TestAdopted(t *testing.T) {
	const head = "apiVersion: ccmadm.dev/v1alpha1\nkind: LocalState\n"
	for name, tt := range map[string]struct {
		before string
		want   state.LocalState
	}{
		"made by kubeadm": {
			want: state.LocalState{Role: "init", NodeName: "cp1", Stage: state.StageFinished, Initialized: true},
		},
		"joined": {
			before: head + "role: join\nnodeName: cp2\nstage: Finished\nupgraded: v1.36.3\n",
			want: state.LocalState{
				Role: "join", NodeName: "cp2", Stage: state.StageFinished, Initialized: true, Upgraded: "v1.36.3",
			},
		},
		"upgraded before it was adopted": {
			before: head + "upgraded: v1.36.3\n",
			want: state.LocalState{
				Role: "init", NodeName: "cp1", Stage: state.StageFinished, Initialized: true, Upgraded: "v1.36.3",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			if tt.before != "" {
				machinetest.Put(t, m, machine.StateFile, tt.before)
			}
			file, err := kubeadm.Parse("", []byte(phasestest.InitConfig))
			if err != nil {
				t.Fatal(err)
			}
			in := workflow.Inputs{Role: kubeadm.RoleInit, Operation: record.Ordinary{}}
			r := workflow.NewRun(m, in, workflow.Streams{Out: t.Output(), Err: t.Output()}, "test")
			r.KubeadmFile = file
			if err := adopted().Run(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			got, err := state.DecodeLocalState(machine.StateFile, []byte(machinetest.Content(m, machine.StateFile)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.want, got, cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
