package images

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/ccmadm/ccmadm/machine"
)

// The annotations by which an index.json names its images: containerd goes by the first, other tools by the second.
const (
	nameAnnotation = "io.containerd.image.name"
	refAnnotation  = "org.opencontainers.image.ref.name"
)

const (
	layoutFile    = "oci-layout"
	layoutContent = `{"imageLayoutVersion":"1.0.0"}`
	indexFile     = "index.json"
)

// part is one file of an archive that is named by its digest.
type part struct {
	size int64
	data []byte // nil: it is copied from the source
	ref  string
}

// Save writes the images of these references, for these architectures of Linux, into out as an OCI image layout in a tar. There
// they have their complete references. An index under a tag is written without what is for others; under a digest it is written as it
// is, without their layers. The errors name each reference that the source lacks, lacks for an architecture, or cannot be asked for.
// Then nothing was written.
func Save(ctx context.Context, out io.Writer, from Source, refs, archs []string) error {
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	parts := map[v1.Hash]part{}
	var names []string
	var failed []error
	for _, ref := range refs {
		name, err := machine.CompleteReference(ref)
		if err != nil {
			failed = append(failed, fmt.Errorf("save image %s: %w", ref, err))
		}
		names = append(names, name)
	}
	if len(failed) > 0 {
		return joined(failed)
	}
	for _, ref := range slices.Compact(slices.Sorted(slices.Values(names))) {
		r, err := resolve(ctx, from, ref, archs)
		if err == nil {
			err = r.keepStored(ctx, from)
		}
		if err == nil && len(r.lacks(archs)) > 0 {
			err = fmt.Errorf("it has no image for %s", strings.Join(r.lacks(archs), ", "))
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("save image %s: %w", ref, err))
			continue
		}
		root := descriptorOf(r.root)
		root.Annotations = map[string]string{nameAnnotation: ref, refAnnotation: tagOf(ref)}
		index.Manifests = append(index.Manifests, root)
		parts[root.Digest] = part{size: root.Size, data: r.root.Data}
		if err := r.collect(ctx, from, parts); err != nil {
			failed = append(failed, fmt.Errorf("save image %s: %w", ref, err))
		}
	}
	if len(failed) > 0 {
		return joined(failed)
	}
	return writeArchive(ctx, out, from, index, parts)
}

// keepStored keeps the images whose layers a folder has. Under a digest an archive has the whole index, and layers for some
// architectures only.
func (r *resolved) keepStored(ctx context.Context, from Source) error {
	f, is := from.(*Folder)
	if _, byDigest := digestOf(r.ref); !is || !byDigest {
		return nil
	}
	var stored []image
	for _, i := range r.images {
		there, err := f.has(ctx, r.ref, i.parts)
		if err != nil {
			return err
		}
		if there {
			stored = append(stored, i)
		} else {
			r.rest = append(r.rest, i.descriptor)
		}
	}
	r.images = stored
	return nil
}

// collect adds the files of the images. Of the rest it adds manifests and configurations: containerd reads those of other machines, such
// as linux/386 on linux/amd64.
func (r *resolved) collect(ctx context.Context, from Source, files map[v1.Hash]part) error {
	blobs := func(list []v1.Descriptor) {
		for _, d := range list {
			if _, is := files[d.Digest]; !is {
				files[d.Digest] = part{size: d.Size, ref: r.ref}
			}
		}
	}
	for _, i := range r.images {
		files[i.descriptor.Digest] = part{size: int64(len(i.manifest.Data)), data: i.manifest.Data}
		blobs(i.parts)
	}
	for _, d := range r.rest {
		manifest, err := from.Manifest(ctx, r.ref, d.Digest)
		if err != nil {
			return fmt.Errorf("read its manifest %s: %w", d.Digest, err)
		}
		if err := sameDigest(d.Digest, manifest.Data); err != nil {
			return err
		}
		files[d.Digest] = part{size: int64(len(manifest.Data)), data: manifest.Data}
		if i, err := parts(manifest); err == nil { // else it is an index
			blobs(i.parts[:1])
		}
	}
	return nil
}

func writeArchive(ctx context.Context, out io.Writer, from Source, index v1.IndexManifest, parts map[v1.Hash]part) error {
	encoded, err := json.Marshal(index)
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	for _, f := range []struct {
		name string
		data []byte
	}{{layoutFile, []byte(layoutContent)}, {indexFile, encoded}} {
		if err := writeHeader(w, f.name, int64(len(f.data))); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	for _, digest := range sortedDigests(parts) {
		p := parts[digest]
		if err := writeHeader(w, blobName(digest), p.size); err != nil {
			return err
		}
		if p.data != nil {
			if _, err := w.Write(p.data); err != nil {
				return err
			}
			continue
		}
		if err := copyBlob(ctx, w, from, p, digest); err != nil {
			return fmt.Errorf("save image %s: copy %s: %w", p.ref, digest, err)
		}
	}
	return w.Close()
}

func copyBlob(ctx context.Context, w io.Writer, from Source, p part, digest v1.Hash) error {
	blob, err := from.Blob(ctx, p.ref, digest)
	if err != nil {
		return err
	}
	defer func() { _ = blob.Close() }() // it was read to its end, and compared
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(blob, p.size))
	if err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); n != p.size || got != digest.Hex {
		return fmt.Errorf("got %d bytes with digest sha256:%s, want %d", n, got, p.size)
	}
	return nil
}

// writeHeader leaves out everything that differs between two runs.
func writeHeader(w *tar.Writer, name string, size int64) error {
	return w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
	})
}

func sortedDigests(parts map[v1.Hash]part) []v1.Hash {
	list := make([]v1.Hash, 0, len(parts))
	for digest := range parts {
		list = append(list, digest)
	}
	slices.SortFunc(list, func(a, b v1.Hash) int { return cmp.Compare(a.Hex, b.Hex) })
	return list
}

func blobName(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }
