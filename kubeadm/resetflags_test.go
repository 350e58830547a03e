package kubeadm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadResetFlags(t *testing.T) {
	dir := t.TempDir()
	header := "apiVersion: " + v1beta4 + "\nkind: ResetConfiguration\n"
	for name, text := range map[string]string{
		"dry.yaml":   "# a comment\n---\n" + header + "dryRun: yes\n",
		"wet.yaml":   header + "force: true\n",
		"wrong.yaml": header + "dryRun: [true]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	tests := []struct {
		name, args string
		want       ResetFlags
		wantErr    string
	}{
		{name: "nothing"},
		{name: "a dry run", args: "--dry-run", want: ResetFlags{DryRun: true}},
		{name: "no dry run", args: "--dry-run=false"},
		{name: "short", args: "-f", want: ResetFlags{Force: true}},
		{
			name: "all else goes to kubeadm",
			args: "--cri-socket x --cleanup-tmp-dir --skip-phases=preflight,remove-etcd-member -v 5 --ignore-preflight-errors=A,B",
			want: ResetFlags{
				IgnorePreflightErrors: []string{"A", "B"},
				Rest:                  []string{"--cri-socket=x", "--cleanup-tmp-dir=true", "--skip-phases=preflight,remove-etcd-member", "--v=5"},
			},
		},
		{name: "a value that looks like a flag", args: "--cri-socket --dry-run", want: ResetFlags{Rest: []string{"--cri-socket=--dry-run"}}},
		{name: "a configuration", args: "--config=wet.yaml", want: ResetFlags{Rest: []string{"--config=wet.yaml"}}},
		{name: "a dry configuration", args: "--config dry.yaml", want: ResetFlags{DryRun: true, Rest: []string{"--config=dry.yaml"}}},
		{name: "a configuration that kubeadm does not read", args: "--config wrong.yaml", wantErr: "wrong.yaml:1: "},
		{name: "no configuration", args: "--config none.yaml", wantErr: "open none.yaml"},
		{name: "help", args: "--help", wantErr: "--help is `kubeadm reset --help`"},
		{name: "short help", args: "-fh", wantErr: "--help is `kubeadm reset --help`"},
		{name: "a phase", args: "phase preflight", wantErr: `unexpected argument "phase"`},
		{name: "a word behind flags", args: "--force -- phase", wantErr: `unexpected argument "phase"`},
		{name: "another root", args: "--rootfs=/mnt", wantErr: "unknown flag: --rootfs"},
		{name: "no value", args: "--cri-socket", wantErr: "flag needs an argument: --cri-socket"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ReadResetFlags(strings.Fields(tt.args))
			if err != nil || tt.wantErr != "" {
				checkError(t, err, tt.wantErr)
				return
			}
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("flags (-want +got):\n%s", diff)
			}
		})
	}
}
