package upgrade

import (
	"os"
	"syscall"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
)

// putSparse writes a file that takes no room.
func putSparse(t *testing.T, m *machine.Machine, path string, size int64) {
	t.Helper()
	machinetest.Put(t, m, path, "")
	if err := os.Truncate(m.Path(path), size); err != nil {
		t.Fatal(err)
	}
}

// Kubeadm copies the data of its own etcd, wherever that is, and nobody else's.
func TestCheckRoom(t *testing.T) {
	for _, tt := range []struct{ name, manifest, data, wantErr string }{
		{
			name: "in kubeadm's own directory", manifest: phasestest.EtcdIn("/var/lib/etcd"), data: "/var/lib/etcd/member/snap/db",
			wantErr: "/etc/kubernetes has room for ",
		},
		{
			name: "in another directory", manifest: phasestest.EtcdIn("/mnt/etcd"), data: "/mnt/etcd/member/snap/db",
			wantErr: "/etc/kubernetes has room for ",
		},
		{
			name: "in another directory, with data of a former day", manifest: phasestest.EtcdIn("/mnt/etcd"),
			data: "/var/lib/etcd/member/snap/db",
		},
		{name: "none of kubeadm's, with data of a former day", data: "/var/lib/etcd/member/snap/db"},
		{
			name: "nobody can tell where", manifest: "spec: {}\n", data: "/var/lib/etcd/member/snap/db",
			wantErr: "measure etcd's data: " + machine.EtcdManifest + " has no volume etcd-data of the machine's",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			machinetest.Put(t, m, machine.AdminConf, "x")
			if tt.manifest != "" {
				machinetest.Put(t, m, machine.EtcdManifest, tt.manifest)
			}
			var stat syscall.Statfs_t
			if err := syscall.Statfs(m.Root, &stat); err != nil {
				t.Fatal(err)
			}
			putSparse(t, m, tt.data, int64(stat.Bavail)*stat.Bsize+1<<30)
			r, _ := phasestest.Run{}.Must(t, m)
			phasestest.WantError(t, checkRoom(t.Context(), r), tt.wantErr, finding.ExitPreflight)
		})
	}
}
