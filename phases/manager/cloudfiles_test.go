package manager

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestSettings_TheImageFollowsTheClustersVersion(t *testing.T) {
	m, _ := machinetest.New(t) // with kubeadm 1.36.3
	text := phasestest.InitConfig + "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.4\nclusterName: ber1\n"
	r, _ := phasestest.Run{Config: text, Inputs: workflow.Inputs{Request: workflow.Request{Flags: config.CloudConfiguration{Provider: "aws"}}}}.Must(t, m)
	s, err := r.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := image(r.Host, s)
	if err != nil || !strings.Contains(got, ":v1.35.") {
		t.Errorf("image %q, %v, want a release of 1.35", got, err)
	}
}

func TestWriteCloudFiles_RemovesWhatIsWantedNoMore(t *testing.T) {
	m, _ := machinetest.New(t)
	write := func(files map[string][]byte) {
		t.Helper()
		r, out := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
		if err := writeCloudFiles(r.Env, files); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	machinetest.Put(t, m, machine.CloudConfigDir+"/theirs", "the administrator's")
	write(map[string][]byte{"cloud.conf": []byte("a"), "token": []byte("b")})
	write(map[string][]byte{"cloud.conf": []byte("a")})
	got := slices.DeleteFunc(slices.Sorted(maps.Keys(phasestest.Snapshot(t, m))), func(path string) bool { return strings.HasPrefix(path, machine.ConfigDir) })
	if diff := cmp.Diff([]string{machine.CloudConfigDir + "/cloud.conf", machine.CloudConfigDir + "/theirs"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
