package host

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestDiskOf: a root that is only read is full, and no place where anything is written.
func TestDiskOf(t *testing.T) {
	image := &unix.Statfs_t{Bsize: 4096, Blocks: 1000, Flags: readOnly}
	if d := diskOf("/", image); d != nil {
		t.Errorf("got %+v", d)
	}
	if d := diskOf("/var/lib/kubelet", image); d == nil {
		t.Error("a disk that the kubelet cannot write to is left out")
	}
	if d := diskOf("/", &unix.Statfs_t{Bsize: 4096, Blocks: 1000, Bavail: 10}); d == nil || d.Bytes != 4096_000 || d.FreeBytes != 40_960 {
		t.Errorf("got %+v", d)
	}
}
