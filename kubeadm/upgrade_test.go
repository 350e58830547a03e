package kubeadm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLeftOutOfUpgrade(t *testing.T) {
	for _, tt := range []struct {
		name, args, text string
		want             LeftOut
		whole            bool
	}{
		{name: "nothing", args: "--etcd-upgrade=false -v5", whole: true},
		{name: "flow style", text: "apply: {skipPhases: [addon]}", want: LeftOut{Phases: []string{"addon"}}},
		{name: "block style", text: "apply:\n  skipPhases:\n  - addon", want: LeftOut{Phases: []string{"addon"}}},
		{name: "a dry run", text: "apply: {dryRun: true}", want: LeftOut{All: true}},
		{name: "as older YAML says true", text: "apply: {dryRun: yes}", want: LeftOut{All: true}},
		{name: "no dry run", text: "apply: {dryRun: false, skipPhases: []}", whole: true},
		{name: "another command's", text: "node: {dryRun: true, skipPhases: [addon]}", whole: true},
		{name: "help", args: "-h", want: LeftOut{All: true}},
		{name: "an add-on", args: "--skip-phases=addon/x", want: LeftOut{Phases: []string{"addon/x"}}, whole: true},
		{
			name: "what changes nothing, behind a flag with a value",
			args: "--patches dir --skip-phases preflight,post-upgrade",
			want: LeftOut{Phases: []string{"preflight", "post-upgrade"}}, whole: true,
		},
		{
			name: "two flags, one of them for more", args: "--skip-phases addon/kube-proxy --skip-phases=control-plane",
			want: LeftOut{Phases: []string{"addon/kube-proxy", "control-plane"}},
		},
		{
			name: "the flag is in place of the file's", args: "--skip-phases=addon/x",
			text: "apply: {skipPhases: [addon]}", want: LeftOut{Phases: []string{"addon/x"}}, whole: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const header = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: UpgradeConfiguration\n"
			f := parseFile(t, "k.yaml", []byte(header+tt.text+"\n"))
			got, err := LeftOutOfUpgrade("apply", strings.Fields(tt.args), f)
			if len(got.Phases) == 0 {
				got.Phases = nil
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil || got.Whole() != tt.whole {
				t.Errorf("whole: %t, %v\n%s", got.Whole(), err, diff)
			}
		})
	}
	if _, err := LeftOutOfUpgrade("node", []string{"--skip-phases"}, nil); err == nil {
		t.Error("a flag without its value is no error")
	}
	for _, args := range []string{"phase control-plane", "--etcd-upgrade phase", "-v 5 phase kubelet-config", "-y phase"} {
		_, err := LeftOutOfUpgrade("node", strings.Fields(args), nil)
		if err == nil || !strings.Contains(err.Error(), `unexpected argument "phase"`) {
			t.Errorf("%s: got %v", args, err)
		}
	}
}
