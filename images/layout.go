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

	"github.com/ccmadm/ccmadm/machine"
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
	path string // of the layout
	in   layout
	root v1.Descriptor
	// twice says that another layout has another image of that name.
	twice error
}

// Folder has the images of the OCI image layouts in a folder: below it, unpacked or as *.tar, or the folder itself. A folder
// of a release of ccmadm is one: if it has a list of digests, only archives that are in the list are used.
type Folder struct {
	path   string
	images map[string]found
	sums   *sums
	// unused says why files cannot be read, and which images have no complete reference: they matter if an image is missing.
	unused []error
	close  []io.Closer
}

var _ Source = (*Folder)(nil)

// OpenFolder lists the images of a folder. Archives that are no OCI image layout are left out. The caller closes it.
func OpenFolder(dir string) (*Folder, error) {
	candidates := []string{dir}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	sums, err := readSums(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{path: dir, images: map[string]found{}, sums: sums}
	for _, e := range list {
		if e.IsDir() || strings.HasSuffix(e.Name(), ".tar") {
			candidates = append(candidates, filepath.Join(dir, e.Name()))
		}
	}
	for _, path := range candidates {
		if err := f.add(path); err != nil {
			f.unused = append(f.unused, fmt.Errorf("read %s: %w", path, err))
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
	if err == nil {
		err = f.sums.check(l)
	}
	if err != nil {
		return err
	}
	for _, d := range list {
		name, complete := nameOf(d)
		image, known := f.images[name]
		switch {
		case !complete:
			f.unused = append(f.unused, fmt.Errorf("read %s: the name of image %s is %q: want a complete reference", path, d.Digest, name))
			continue
		case !known:
			image = found{path: path, in: l, root: d}
		case image.root.Digest != d.Digest:
			image.twice = fmt.Errorf("it is there twice, in %s as %s and in %s as %s", image.path, image.root.Digest, path, d.Digest)
		}
		f.images[name] = image
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

// nameOf is the complete reference of an image in an index.json, or what else there is of a name: a tag alone is no reference.
func nameOf(d v1.Descriptor) (name string, complete bool) {
	name = cmp.Or(d.Annotations[nameAnnotation], d.Annotations[refAnnotation])
	if ref, err := machine.CompleteReference(name); err == nil && strings.ContainsAny(name, "/:") {
		return ref, true
	}
	return name, false
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
	switch {
	case !is && len(f.unused) > 0: // one of those may be it
		return Document{}, fmt.Errorf("look in %s: no image that can be used has this name:\n%w", f.path, errors.Join(f.unused...))
	case !is:
		return Document{}, fmt.Errorf("look in %s: %w", f.path, ErrMissing)
	case image.twice != nil:
		return Document{}, fmt.Errorf("look in %s: %w", f.path, image.twice)
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

// has tells whether the layout of a reference has all of these blobs.
func (f *Folder) has(ctx context.Context, ref string, list []v1.Descriptor) (bool, error) {
	for _, d := range list {
		blob, err := f.Blob(ctx, ref, d.Digest)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look for %s: %w", d.Digest, err)
		}
		if err := blob.Close(); err != nil {
			return false, err
		}
	}
	return true, nil
}
