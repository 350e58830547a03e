package bundle

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

const readme = `Diagnostics that ccmadm support-bundle collected.

diagnosis.txt   what the doctor found; diagnosis.json for programs
snapshot.json   its input: ccmadm doctor --from snapshot.json
not-seen.txt    what could not be read, and why; nothing else was left out
cluster/        configuration, workloads, Events and logs, from the API server
machine/        files of the machine on which the command ran

No Secret was read. Data of Secrets, values of variables and of a cloud's configuration, and everything that looks like a
credential were removed. Names and addresses are left. A program may log a credential in a form that is not
recognized: check the files before you send them.
`

// Vacant refuses a name that is taken, before the work is done.
func Vacant(name string) error {
	_, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("write the bundle: %w", err)
	}
	return finding.Usagef("write the bundle: %s is there already", name).WithHint("--output names another file")
}

// WriteFile writes the archive, only for its owner to read. It gets its name when it is
// complete, and only if the name is still free.
func (b *Bundle) WriteFile(name string) error {
	if err := Vacant(name); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	err = b.Write(tmp)
	if err == nil {
		err = tmp.Sync()
	}
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Link(tmp.Name(), name) // a rename would replace
	}
	if errors.Is(err, fs.ErrExist) {
		return Vacant(name)
	}
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	return nil
}

// Write writes the archive: the same content is the same bytes.
func (b *Bundle) Write(out io.Writer) error {
	missed := b.NotSeen()
	b.mu.Lock()
	defer b.mu.Unlock()
	files := maps.Clone(b.files)
	files[root+"/README.txt"] = []byte(readme)
	files[root+"/not-seen.txt"] = []byte(strings.Join(append(missed, ""), "\n"))
	zip := gzip.NewWriter(out)
	archive := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: name, Size: int64(len(files[name])), Mode: 0o600, ModTime: b.taken, Format: tar.FormatPAX,
		}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("write %s into the archive: %w", name, err)
		}
		if _, err := archive.Write(files[name]); err != nil {
			return fmt.Errorf("write %s into the archive: %w", name, err)
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}
