package manifeststest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Bird finds a program of BIRD, the router: bird or birdc, in the lab's Debian, with the libraries that it has there, or
// on this machine.
func Bird(name string) ([]string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return []string{path}, nil
	}
	root, err := Debian("usr/sbin/" + name)
	if err != nil {
		return nil, err
	}
	libraries, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu"))
	loader, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu/ld-linux*"))
	if len(libraries) == 0 || len(loader) == 0 {
		return nil, fmt.Errorf("no libraries in %s", root)
	}
	return []string{loader[0], "--library-path", libraries[0], filepath.Join(root, "usr/sbin", name)}, nil
}

// Debian is the root folder of the lab's Debian, the newest that has a program at this path.
func Debian(program string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	newest, at := "", time.Time{}
	roots, _ := filepath.Glob(filepath.Join(cache, "ccmadm-lab", "debian-*"))
	for _, root := range roots {
		if info, err := os.Stat(filepath.Join(root, program)); err == nil && info.ModTime().After(at) {
			newest, at = root, info.ModTime()
		}
	}
	if newest == "" {
		return "", fmt.Errorf("no %s: `make lab` makes a Debian that has it", program)
	}
	return newest, nil
}
