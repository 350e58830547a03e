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

func TestMachine_Astray(t *testing.T) {
	m := At(t.TempDir())
	for _, dir := range []string{"/data/kubelet", "/var/lib", "/etc"} {
		if err := os.MkdirAll(m.Path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"/var/lib/kubelet": "/data/kubelet", "/var/lib/near": "../../data/kubelet", "/var/lib/tmp": "/",
		"/var/lib/none": "/none",
	} {
		if err := os.Symlink(target, m.Path(link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]bool{
		"/var/lib/kubelet": true, "/var/lib/tmp": true, "/var/lib/near": false, "/var/lib/none": false,
		"/etc": false, "/no": false,
	} {
		if got, err := m.Astray(path); got != want || err != nil {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	own := At("/")
	if got, err := own.Astray(m.Path("/var/lib/kubelet")); got || err != nil {
		t.Errorf("below the root of this process: %v, %v", got, err)
	}
}
