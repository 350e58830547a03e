package phases

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/phases/kubeadm"
)

func TestNew_FlagsThatMeanTheSameToBoth(t *testing.T) {
	var out bytes.Buffer
	d, err := New(t.Context(), Options{
		Role: kubeadm.RoleInit, KubeadmArgs: []string{"--dry-run", "--ignore-preflight-errors=A,B", "--upload-certs"}, IgnorePreflightErrors: []string{"C"},
	}, Streams{Out: &out, Err: &out}, "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, shows := d.Files.(printFiles); !d.DryRun || !shows {
		t.Error("a --dry-run behind the -- would write files")
	}
	if diff := cmp.Diff([]string{"C", "A", "B"}, d.IgnorePreflightErrors); diff != "" {
		t.Errorf("ignored errors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"--upload-certs=true"}, d.KubeadmRest); diff != "" {
		t.Errorf("left for kubeadm (-want +got):\n%s", diff)
	}
}

func TestData_InitHalf_KeepsTheUsersOwnSkips(t *testing.T) {
	file, err := kubeadm.Parse("k.yaml", []byte("apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nskipPhases: [addon/kube-proxy]\n"))
	if err != nil {
		t.Fatal(err)
	}
	d := &Data{Kubeadm: file, KubeadmRest: []string{"--v=5"}}
	want := []string{"init", "--config=/etc/ccmadm/kubeadm.yaml", "--skip-phases=preflight,addon/kube-proxy", "--v=5"}
	if diff := cmp.Diff(want, d.initHalf([]string{"preflight"})); diff != "" {
		t.Errorf("skips of the file (-want +got):\n%s", diff)
	}
	d.KubeadmRest = []string{"--skip-phases=addon", "--v=5"} // kubeadm: the flag wins over the file
	want[2] = "--skip-phases=preflight,addon"
	if diff := cmp.Diff(want, d.initHalf([]string{"preflight"})); diff != "" {
		t.Errorf("skips of the flag (-want +got):\n%s", diff)
	}
}

func TestMaskArgs(t *testing.T) {
	got := kubeadm.MaskArgs([]string{"join", "--token=abcdef.0123456789abcdef", "--certificate-key=0011"})
	want := []string{"join", "--token=abcdef.<hidden>", "--certificate-key=<hidden>"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}
