package phases

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/ccmadm/ccmadm/phases/kubeadm"
)

// File is a file to be written.
type File struct {
	Path string
	Data []byte
	Mode fs.FileMode
	// Opaque files are keys or credentials: a dry run does not show their content.
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
type diskFiles struct{}

// Write replaces the content of a file. The owner and mode of an existing one are kept.
func (diskFiles) Write(f File) (bool, error) {
	old, err := os.ReadFile(f.Path)
	switch {
	case err == nil && bytes.Equal(old, f.Data):
		return false, nil
	case err == nil:
		if err := keepPrevious(f.Path, old); err != nil {
			return false, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("read the file to be replaced: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return false, fmt.Errorf("make the directory of %s: %w", f.Path, err)
	}
	t, err := renameio.NewPendingFile(f.Path, renameio.WithPermissions(f.Mode), renameio.WithExistingPermissions(), renameio.IgnoreUmask())
	if err != nil {
		return false, fmt.Errorf("write %s: %w", f.Path, err)
	}
	defer func() { _ = t.Cleanup() }() // a no-op once replaced; its error would only repeat the first one
	if _, err := t.Write(f.Data); err != nil {
		return false, fmt.Errorf("write %s: %w", f.Path, err)
	}
	if err := t.CloseAtomicallyReplace(); err != nil {
		return false, fmt.Errorf("write %s: %w", f.Path, err)
	}
	return true, nil
}

// Remove deletes the file and its kept predecessor.
func (diskFiles) Remove(path string) (bool, error) {
	if err := os.Remove(previousName(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

func keepPrevious(path string, old []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("keep the previous version: %w", err)
	}
	if err := renameio.WriteFile(previousName(path), old, info.Mode().Perm(), renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("keep the previous version of %s: %w", path, err)
	}
	return nil
}

func previousName(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".previous")
}

// printFiles shows the difference that a write would make, and writes nothing.
type printFiles struct{ out io.Writer }

// Write prints a unified diff in which bootstrap tokens and certificate keys are masked.
func (p printFiles) Write(f File) (bool, error) {
	old, err := os.ReadFile(f.Path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read the file to be replaced: %w", err)
	}
	if err == nil && bytes.Equal(old, f.Data) {
		return false, nil
	}
	if f.Opaque {
		fmt.Fprintf(p.out, "[dryrun] would write %s (%d bytes, mode %#o, content not shown)\n", f.Path, len(f.Data), f.Mode)
		return true, nil
	}
	from := f.Path
	if err != nil {
		from = os.DevNull
	}
	fmt.Fprintf(p.out, "[dryrun] would write %s\n%s", f.Path, diff.Diff(from, kubeadm.MaskSecrets(old), f.Path, kubeadm.MaskSecrets(f.Data)))
	return true, nil
}

// Remove says what would go.
func (p printFiles) Remove(path string) (bool, error) {
	if _, err := os.Lstat(path); err != nil {
		return false, nil //nolint:nilerr // nothing there, nothing to remove
	}
	fmt.Fprintf(p.out, "[dryrun] would remove %s\n", path)
	return true, nil
}
