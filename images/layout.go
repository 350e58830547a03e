package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// layout opens the files of one OCI image layout by their names in it.
type layout interface {
	open(name string) (io.ReadCloser, error)
}

// folder is a layout that was unpacked. Links do not lead out of it.
type folder struct{ root *os.Root }

func (f folder) open(name string) (io.ReadCloser, error) {
	return f.root.Open(filepath.FromSlash(name))
}

// packed is a layout in a tar, which stays open.
type packed struct {
	file  *os.File
	files map[string]section
}

type section struct{ offset, size int64 }

func (p packed) open(name string) (io.ReadCloser, error) {
	s, is := p.files[name]
	if !is {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(io.NewSectionReader(p.file, s.offset, s.size)), nil
}

// pack finds the files in a tar. A name that occurs twice is refused: programs differ in which of the two they take.
func pack(file *os.File) (packed, error) {
	p := packed{file: file, files: map[string]section{}}
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return p, nil
		}
		if err != nil {
			return p, fmt.Errorf("read the tar: %w", err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		name := path.Clean(h.Name)
		if _, twice := p.files[name]; twice {
			return p, fmt.Errorf("file %q is in it twice", name)
		}
		offset, err := file.Seek(0, io.SeekCurrent)
		if err != nil {
			return p, err
		}
		p.files[name] = section{offset, h.Size}
	}
}

// readFile reads a document of a layout.
func readFile(l layout, name string) ([]byte, error) {
	f, err := l.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = fmt.Errorf("read %s: it is larger than %d bytes", name, maxDocument)
	}
	return data, err
}

// entries are the images that index.json lists.
func entries(l layout) ([]v1.Descriptor, error) {
	if _, err := readFile(l, layoutFile); err != nil {
		return nil, fmt.Errorf("it is no OCI image layout: %w", err)
	}
	data, err := readFile(l, indexFile)
	if err != nil {
		return nil, err
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", indexFile, err)
	}
	return index.Manifests, nil
}

func (f *found) document(digest v1.Hash) (Document, error) {
	if digest.Algorithm != "sha256" {
		return Document{}, fmt.Errorf("digest %s: want sha256", digest)
	}
	data, err := readFile(f.in, blobName(digest))
	if err != nil {
		return Document{}, err
	}
	if err := sameDigest(digest, data); err != nil {
		return Document{}, err
	}
	return Document{Type: mediaType("", data), Data: data}, nil
}

// found is an image in a layout.
type found struct {
	in   layout
	root v1.Descriptor
}

// Folder has the images of the OCI image layouts in a folder: below it, unpacked or as *.tar, or the folder itself. A folder
// of a release of ccmadm is one.
type Folder struct {
	path   string
	images map[string]found
	close  []io.Closer
}

var _ Source = (*Folder)(nil)

// OpenFolder lists the images of a folder. Archives that are no OCI image layout are left out. The caller closes it.
func OpenFolder(dir string) (*Folder, error) {
	f := &Folder{path: dir, images: map[string]found{}}
	candidates := []string{dir}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if e.IsDir() || strings.HasSuffix(e.Name(), ".tar") {
			candidates = append(candidates, filepath.Join(dir, e.Name()))
		}
	}
	for _, path := range candidates {
		if err := f.add(path); err != nil {
			return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), f.Close())
		}
	}
	return f, nil
}

func (f *Folder) add(path string) error {
	l, closer, err := openLayout(path)
	if err != nil {
		return err
	}
	f.close = append(f.close, closer)
	list, err := entries(l)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range list {
		name := nameOf(d)
		if other, twice := f.images[name]; twice && other.root.Digest != d.Digest {
			return fmt.Errorf("image %s is there twice, as %s and as %s", name, other.root.Digest, d.Digest)
		}
		f.images[name] = found{l, d}
	}
	return nil
}

func openLayout(path string) (layout, io.Closer, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, nil, err
	} else if info.IsDir() {
		root, err := os.OpenRoot(path)
		return folder{root}, root, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	p, err := pack(file)
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return p, file, nil
}

// nameOf is the complete reference of an image in an index.json, or what else there is of a name: a tag alone is none.
func nameOf(d v1.Descriptor) string {
	name := cmp.Or(d.Annotations[nameAnnotation], d.Annotations[refAnnotation])
	if complete, err := Complete(name); err == nil && strings.ContainsAny(name, "/:") {
		return complete
	}
	return name
}

// Close closes the files of the folder.
func (f *Folder) Close() error {
	var errs []error
	for _, c := range f.close {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Names lists the images, sorted.
func (f *Folder) Names() []string {
	var names []string
	for name := range f.images {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Root reads what a reference names.
func (f *Folder) Root(_ context.Context, ref string) (Document, error) {
	image, is := f.images[ref]
	if !is {
		return Document{}, fmt.Errorf("look in %s: %w", f.path, ErrMissing)
	}
	return image.document(image.root.Digest)
}

// Manifest reads a manifest of a reference's index.
func (f *Folder) Manifest(_ context.Context, ref string, digest v1.Hash) (Document, error) {
	image := f.images[ref]
	return image.document(digest)
}

// Blob opens a configuration or a layer.
func (f *Folder) Blob(_ context.Context, ref string, digest v1.Hash) (io.ReadCloser, error) {
	return f.images[ref].in.open(blobName(digest))
}
