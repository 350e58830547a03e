package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// checkRoom wants room for what kubeadm copies: before it upgrades an etcd of its own, all of its data.
func checkRoom(_ context.Context, r *workflow.Run) error {
	const spare = 64 << 20 // bytes, for manifests, certificates, and what other programs write meanwhile
	size, err := etcdSize(r.Machine)
	if err != nil {
		return finding.Preflightf("measure etcd's data: %w", err)
	}
	dir := r.Machine.Path(filepath.Dir(machine.AdminConf))
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", dir, os.NewSyscallError("statfs", err))
	}
	if free := stat.Bavail * uint64(stat.Bsize); free < size+spare {
		return finding.Preflightf("%s has room for %d MB: kubeadm keeps a copy of etcd's data there, %d MB",
			filepath.Dir(machine.AdminConf), free>>20, size>>20).WithHint("free %d MB", (size+spare-free)>>20+1)
	}
	return nil
}

// etcdSize is that of the data of kubeadm's etcd, in bytes; 0: there is none here, as with an external one.
func etcdSize(m *machine.Machine) (size uint64, err error) {
	dir, err := record.EtcdData(m)
	if err != nil || dir == "" {
		return 0, err
	}
	err = filepath.WalkDir(m.Path(dir), func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // etcd compacts its files meanwhile
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		if info, err := entry.Info(); err == nil {
			size += uint64(info.Size())
		}
		return nil
	})
	return size, err
}
