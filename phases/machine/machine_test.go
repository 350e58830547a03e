package machine

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"
)

// A link leads where it leads on the machine itself, and never to a file of this process's root.
func TestMachine_Read_Links(t *testing.T) {
	m := At(t.TempDir())
	if err := os.MkdirAll(m.Path("/data/kubelet"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.Path("/data/kubelet/x"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"/kubelet": "/data/kubelet", "/data/current": "/kubelet/x", "/data/near": "../../../data/kubelet/x",
		"/data/round": "round", "/data/outside": "/etc/passwd",
	} {
		if err := os.Symlink(target, m.Path(link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]error{
		"/kubelet/x": nil, "data/current": nil, "/data/near": nil, "/data/../kubelet/./x": nil,
		"/data/round": syscall.ELOOP, "/data/outside": fs.ErrNotExist, "/none": fs.ErrNotExist,
	} {
		data, err := m.Read(path)
		if !errors.Is(err, want) || want == nil && string(data) != "x" {
			t.Errorf("%s: %q, %v; want %v", path, data, err, want)
		}
	}
}
