package planner

import (
	"testing"

	"github.com/ccmadm/ccmadm/api/state"
)

// What the user has named for one control plane stays for the next one, if it is for the target.
func TestNew_KeepsTheUsersRelease(t *testing.T) {
	const mirror = "mirror.example/cloud-controller-manager:"
	for tag, want := range map[string]string{"v1.36.1": mirror + "v1.36.1", "v1.35.2": awsImage + "v1.36.1"} {
		f := cluster(t)
		f.Record.ImageBy, f.Record.Configuration.ControllerManager.Image = state.ImageByUser, mirror+tag
		for i := range f.Nodes {
			f.Nodes[i].Manager = mirror + tag
		}
		p, err := New(f)
		if err != nil || p.Manager.Then != want {
			t.Errorf("%s: %v, then %s, want %s", tag, err, p.Manager.Then, want)
		}
	}
}
