package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// writeImage writes the image of a program for all platforms as one OCI layout in an archive, which
// `ctr images import` reads as it is. Program, entry point and user are those of `make images`.
func (r *release) writeImage(file string, p program) error {
	index, err := r.imageIndex(p)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(r.work, "layout-*")
	if err != nil {
		return err
	}
	out, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	reference := imageRegistry + "/" + p.name + ":" + r.version
	// containerd names an imported image by the first, other tools by the second.
	if err := out.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": r.version,
	})); err != nil {
		return err
	}
	entries, err := entriesBelow(dir)
	if err != nil {
		return err
	}
	return create(file, func(w io.Writer) error { return writeTar(w, entries, r.date) })
}

func (r *release) imageIndex(p program) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, on := range nodes() {
		img, err := r.image(p, on)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: on.os, Architecture: on.arch}},
		})
	}
	return index, nil
}

// image is one layer with the program, and with /tmp, to which programs such as klog write.
func (r *release) image(p program, on platform) (v1.Image, error) {
	binary := filepath.Join(r.work, on.String(), p.name)
	var tarred bytes.Buffer
	entries := []entry{{name: p.name, mode: 0o755, file: binary}, {name: "tmp/", mode: 0o1777}}
	if err := writeTar(&tarred, entries, r.date); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(tarred.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.AppendLayers(img, layer); err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = on.os, on.arch, v1.Time{Time: r.date}
	config.Config = v1.Config{Entrypoint: []string{"/" + p.name}, User: p.user, Labels: map[string]string{
		"org.opencontainers.image.title": p.name, "org.opencontainers.image.description": p.about,
		"org.opencontainers.image.source": repository, "org.opencontainers.image.version": r.version,
		"org.opencontainers.image.revision": r.commit, "org.opencontainers.image.licenses": "Apache-2.0",
	}}
	return mutate.ConfigFile(img, config)
}

func entriesBelow(dir string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		entries = append(entries, entry{name: filepath.ToSlash(name), mode: 0o644, file: path})
		return err
	})
	return entries, err
}
