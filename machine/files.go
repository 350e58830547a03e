package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
	"github.com/rogpeppe/go-internal/diff"
)

// File is a file to be written.
type File struct {
	Path string
	Data []byte
	Mode fs.FileMode
	// Opaque files are keys or credentials: a dry run does not show their content, and nobody may read them whom Mode
	// does not let, whatever the mode of the file that they replace.
	Opaque bool
}

// Files changes files of the machine. Write and Remove return whether anything differed.
type Files interface {
	Write(File) (bool, error)
	Remove(path string) (bool, error)
}

var (
	_ Files = diskFiles{}
	_ Files = printFiles{}
)

// diskFiles writes atomically: a crash leaves the old content or the new, never a part. The previous content is
// kept beside the file under a name with a leading dot, which the kubelet's static pod source ignores.
type diskFiles struct{ root string }

// Write replaces the content of a file. The owner and, unless it is opaque, the mode of an existing one are kept. Where the name is a
// symbolic link, as configuration management makes them, the file that it leads to is replaced.
func (d diskFiles) Write(f File) (bool, error) {
	target, err := follow(d.root, f.Path)
	if err != nil {
		return false, fmt.Errorf("write %s: %w", f.Path, err)
	}
	info, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return true, d.replace(target, f, f.Mode, nil)
	}
	if err != nil {
		return false, fmt.Errorf("write %s: %w", f.Path, err)
	}
	mode := info.Mode().Perm()
	if f.Opaque {
		mode &= f.Mode
	}
	old, err := os.ReadFile(target)
	if err != nil {
		return false, fmt.Errorf("read the file to be replaced: %w", err)
	}
	if bytes.Equal(old, f.Data) && mode == info.Mode().Perm() {
		return false, nil
	}
	if !bytes.Equal(old, f.Data) {
		if err := d.replace(PreviousName(filepath.Join(d.root, f.Path)), File{Path: PreviousName(f.Path), Data: old}, mode, info); err != nil {
			return false, fmt.Errorf("keep the previous version: %w", err)
		}
	}
	return true, d.replace(target, f, mode, info)
}

// replace writes the content with the mode, and with the owner of the file that it replaces.
func (diskFiles) replace(path string, f File, mode fs.FileMode, owner fs.FileInfo) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the directory of %s: %w", f.Path, err)
	}
	t, err := renameio.NewPendingFile(path, renameio.WithPermissions(mode), renameio.IgnoreUmask())
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	defer func() { _ = t.Cleanup() }() // a no-op once replaced; its error would only repeat the first one
	if _, err := t.Write(f.Data); err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	if owner != nil {
		if stat, ok := owner.Sys().(*syscall.Stat_t); ok && (int(stat.Uid) != os.Geteuid() || int(stat.Gid) != os.Getegid()) {
			if err := t.Chown(int(stat.Uid), int(stat.Gid)); err != nil {
				return fmt.Errorf("keep the owner of %s: %w", f.Path, err)
			}
		}
	}
	if err := t.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	return nil
}

// Remove deletes the file and its kept predecessor, and what is left of writes of either that were killed.
func (d diskFiles) Remove(name string) (bool, error) {
	path := filepath.Join(d.root, name)
	if err := removeUnfinished(path); err != nil {
		return false, err
	}
	if err := os.Remove(PreviousName(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("remove the previous version: %w", err)
	}
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remove file: %w", err)
	}
	return true, nil
}

// removeUnfinished deletes what a process that was killed while it wrote a file has left beside it: its name behind a
// dot, with a number. With a previous version goes what was to follow it.
func removeUnfinished(path string) error {
	names := []string{filepath.Base(path), filepath.Base(PreviousName(path))}
	if origin, is := strings.CutSuffix(names[0], previous); is && strings.HasPrefix(origin, ".") {
		names = append(names, origin[1:])
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for files that were not written to their end: %w", err)
	}
	for _, e := range entries {
		for _, of := range names {
			number, is := strings.CutPrefix(e.Name(), "."+of)
			if !is || number == "" || strings.Trim(number, "0123456789") != "" || !e.Type().IsRegular() {
				continue
			}
			if err := os.Remove(filepath.Join(filepath.Dir(path), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove what was not written to its end: %w", err)
			}
		}
	}
	return nil
}

// previous ends the name of a file's former content.
const previous = ".previous"

// PreviousName is where the former content of a file is kept.
func PreviousName(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+previous)
}

// printFiles shows the difference that a write would make, and writes nothing.
type printFiles struct {
	root string
	out  io.Writer
	mask func([]byte) []byte
}

// Write prints a unified diff of the masked contents.
func (p printFiles) Write(f File) (bool, error) {
	old, err := os.ReadFile(filepath.Join(p.root, f.Path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read the file to be replaced: %w", err)
	}
	if err == nil && bytes.Equal(old, f.Data) {
		return p.tighten(f)
	}
	if f.Opaque {
		fmt.Fprintf(p.out, "[dryrun] would write %s (%d bytes, mode %#o, content not shown)\n", f.Path, len(f.Data), f.Mode)
		return true, nil
	}
	from := f.Path
	if err != nil {
		from = os.DevNull
	}
	fmt.Fprintf(p.out, "[dryrun] would write %s\n%s", f.Path, diff.Diff(from, p.mask(old), f.Path, p.mask(f.Data)))
	return true, nil
}

// tighten says what a write does to a file that has its content, and is to be read by fewer.
func (p printFiles) tighten(f File) (bool, error) {
	info, err := os.Stat(filepath.Join(p.root, f.Path))
	if err != nil {
		return false, fmt.Errorf("look at the mode of %s: %w", f.Path, err)
	}
	mode := info.Mode().Perm()
	if !f.Opaque || mode&^f.Mode == 0 {
		return false, nil
	}
	fmt.Fprintf(p.out, "[dryrun] would change the mode of %s from %#o to %#o\n", f.Path, mode, mode&f.Mode)
	return true, nil
}

// Remove says what would go.
func (p printFiles) Remove(path string) (bool, error) {
	if _, err := os.Lstat(filepath.Join(p.root, path)); err != nil {
		return false, nil //nolint:nilerr // nothing there, nothing to remove
	}
	fmt.Fprintf(p.out, "[dryrun] would remove %s\n", path)
	return true, nil
}
