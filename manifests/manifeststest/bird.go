package manifeststest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Bird finds a program of BIRD, the router: bird or birdc, in the lab's Debian, with the libraries that it has there, or
// on this machine.
func Bird(name string) ([]string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return []string{path}, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	found, _ := filepath.Glob(filepath.Join(cache, "ccmadm-lab", "debian-*", "usr/sbin", name))
	if len(found) == 0 {
		return nil, errors.New("no BIRD: make lab has one, as Debian's package bird2")
	}
	root := filepath.Dir(filepath.Dir(filepath.Dir(found[0])))
	libraries, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu"))
	loader, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu/ld-linux*"))
	if len(libraries) == 0 || len(loader) == 0 {
		return nil, fmt.Errorf("no libraries in %s", root)
	}
	return []string{loader[0], "--library-path", libraries[0], found[0]}, nil
}
