package phases

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestNew_FlagsThatMeanTheSameToBoth(t *testing.T) {
	m, _ := machinetest.New(t)
	r, out := phasestest.Run{Inputs: workflow.Inputs{Request: workflow.Request{IgnorePreflightErrors: []string{"C"}}}, Args: []string{"--dry-run", "--ignore-preflight-errors=A,B", "--upload-certs"}}.Must(t, m)
	if _, err := r.Machine.Files.Write(machine.File{Path: "/etc/x", Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if !r.DryRun || len(phasestest.Snapshot(t, m)) > 0 || !strings.Contains(out.String(), "[dryrun] would write /etc/x") {
		t.Error("a --dry-run behind the -- would write files")
	}
	if diff := cmp.Diff([]string{"C", "A", "B"}, r.IgnorePreflightErrors); diff != "" {
		t.Errorf("ignored errors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"--upload-certs=true"}, r.KubeadmRest); diff != "" {
		t.Errorf("left for kubeadm (-want +got):\n%s", diff)
	}
}

func TestInitHalf_KeepsTheUsersOwnSkips(t *testing.T) {
	m, _ := machinetest.New(t)
	r := phasestest.Run{Config: phasestest.InitConfig + "skipPhases: [addon/kube-proxy]\n", Args: []string{"--v=5"}}
	run, _ := r.Must(t, m)
	want := []string{"init", "--config=/etc/ccmadm/kubeadm.yaml", "--skip-phases=preflight,addon/kube-proxy", "--v=5"}
	if diff := cmp.Diff(want, workflow.InitHalf(run, []string{"preflight"})); diff != "" {
		t.Errorf("skips of the file (-want +got):\n%s", diff)
	}
	r.Args = []string{"--skip-phases=addon", "--v=5"} // kubeadm: the flag wins over the file
	run, _ = r.Must(t, m)
	want[2] = "--skip-phases=preflight,addon"
	if diff := cmp.Diff(want, workflow.InitHalf(run, []string{"preflight"})); diff != "" {
		t.Errorf("skips of the flag (-want +got):\n%s", diff)
	}
}

func TestMaskArgs(t *testing.T) {
	got := kubeadm.MaskArgs([]string{
		"join", "--token=abcdef.0123456789abcdef", "--certificate-key=0011", "--skip-phases=bootstrap-token,addon",
	})
	want := []string{"join", "--token=abcdef.<hidden>", "--certificate-key=<hidden>", "--skip-phases=bootstrap-token,addon"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}
