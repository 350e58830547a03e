package workflow

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// A kubeconfig that leads nowhere is named, with what it lacks, and no variable that ccmadm does not read.
func TestRestConfig_NoCluster(t *testing.T) {
	const anew = "kubeadm init phase kubeconfig admin"
	named := filepath.Join(t.TempDir(), "named.conf")
	if err := os.WriteFile(named, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		path    string // default: that of the machine's administrator
		file    string
		named   string
		want    string
		hint    string
		code    finding.ExitCode
		missing bool
	}{
		{name: "empty", want: "admin.conf: it names no cluster", hint: anew, code: finding.ExitError},
		{
			name: "nothing chosen", file: "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]",
			want: "admin.conf: it has no current-context", hint: anew, code: finding.ExitError,
		},
		{
			name: "a kubelet's", path: machine.KubeletConf,
			want: "kubelet.conf: it names no cluster", hint: "a copy of it; or kubeadm reset", code: finding.ExitError,
		},
		{name: "not there", missing: true, want: "admin.conf: ", hint: "root can read it", code: finding.ExitError},
		{
			name: "named", named: named,
			want: named + ": it names no cluster", hint: "--kubeconfig", code: finding.ExitUsage,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			path := cmp.Or(tt.path, machine.AdminConf)
			if !tt.missing {
				machinetest.Put(t, m, path, tt.file)
			}
			_, err := RESTConfig(&Env{Machine: m, Kubeconfig: tt.named}, path)
			var known *finding.Error
			if !errors.As(err, &known) || known.Code != tt.code || !strings.Contains(known.Error(), tt.want) ||
				!strings.Contains(known.Hint, tt.hint) {
				t.Errorf("got %v, %+v; want %d, %q with hint %q", err, known, tt.code, tt.want, tt.hint)
			}
		})
	}
}
