package workflow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
)

// Remove removes a file of the machine, and says so.
func Remove(env *Env, path string) error {
	target, link := os.Readlink(env.Machine.Path(path))
	removed, err := env.Machine.Files.Remove(path)
	if err != nil {
		return err
	}
	switch {
	case !removed || env.DryRun:
	case link == nil: // what is written goes behind a link, and may be a key
		env.Sayf("%s removed, a symbolic link: %s, to which it led, stays", path, target)
	default:
		env.Sayf("%s removed", path)
	}
	env.NoteChange(removed)
	return nil
}

// RemoveUnit takes the kubelet's drop-in and the boot-time unit away. A package's unit stays, and is disabled if an administrator has
// enabled it: packaged.
func RemoveUnit(ctx context.Context, env *Env) (packaged bool, err error) {
	unit := filepath.Base(machine.KubeletUnit)
	installed, err := env.Machine.Exists(machine.KubeletUnit)
	if err != nil {
		return false, err
	}
	if !installed {
		if packaged, err = env.Machine.UnitEnabled(ctx, unit); err != nil {
			return false, err
		}
	}
	if installed || packaged {
		if err := env.Machine.Systemctl(ctx, "disable", "--quiet", unit); err != nil {
			return packaged, err // it may be disabled
		}
	}
	if packaged {
		env.NoteChange(true)
		if !env.DryRun {
			env.Sayf("%s disabled", unit)
		}
	}
	configured, err := env.Machine.Exists(machine.KubeletDropIn)
	if err != nil || !installed && !configured {
		return packaged, err
	}
	for _, path := range []string{machine.KubeletUnit, machine.KubeletDropIn} {
		if err := Remove(env, path); err != nil {
			return packaged, err
		}
	}
	if err := RemoveEmptyDir(env, filepath.Dir(machine.KubeletDropIn)); err != nil {
		return packaged, err
	}
	return packaged, env.Machine.DaemonReload(ctx)
}

// RemoveEmptyDir leaves a directory that holds something we did not write.
func RemoveEmptyDir(env *Env, dir string) error {
	if env.DryRun {
		return nil
	}
	left, err := os.ReadDir(env.Machine.Path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for files that are not ours: %w", err)
	}
	if len(left) > 0 {
		env.Sayf("%s is kept: %s is not ours", dir, left[0].Name())
		return nil
	}
	if err := os.Remove(env.Machine.Path(dir)); err != nil {
		return fmt.Errorf("remove directory: %w", err)
	}
	return nil
}

// FilesIn lists the plain files of a directory; those that keep a previous version go with the file itself.
func FilesIn(m *machine.Machine, dir string) ([]string, error) {
	entries, err := os.ReadDir(m.Path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list files to remove: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if e.Name()[0] != '.' && e.Type().IsRegular() {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

// ErrNotRoot is the error of a command that needs root. What names it.
func ErrNotRoot(what string) *finding.Error {
	return finding.Preflightf("%s: not root", what).WithHint("run the same command with sudo")
}
