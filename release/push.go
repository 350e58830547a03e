package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push sends the images of a release to registry/NAME:VERSION, and the chart to registry/charts/ccmadm, with the credentials that `docker login` has written, and prints
// each as registry/NAME@DIGEST, which is what signatures are of.
func push(ctx context.Context, dir, version, registry string, out io.Writer) error {
	for _, p := range programs() {
		reference := registry + "/" + p.name + ":" + version
		tag, err := name.NewTag(reference, name.StrictValidation)
		if err != nil {
			return fmt.Errorf("image name %q: %w", reference, err)
		}
		archive := (&release{version: version}).imageName(p.name)
		pushed, err := pushArchive(ctx, filepath.Join(dir, archive), tag)
		if err != nil {
			return fmt.Errorf("push %s as %s: %w", archive, tag, err)
		}
		if _, err := fmt.Fprintln(out, tag.Digest(pushed.String())); err != nil {
			return err
		}
	}
	return pushChart(ctx, dir, version, registry, out)
}

func pushArchive(ctx context.Context, archive string, tag name.Tag) (v1.Hash, error) {
	index, remove, err := openImage(archive)
	if err != nil {
		return v1.Hash{}, err
	}
	defer remove()
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// openImage unpacks an archive that writeImage wrote into a folder that remove removes.
func openImage(archive string) (index v1.ImageIndex, remove func(), err error) {
	dir, err := os.MkdirTemp("", "ccmadm-image-*")
	if err != nil {
		return nil, nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			remove()
		}
	}()
	if err := unpack(archive, dir); err != nil {
		return nil, nil, err
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		return nil, nil, err
	}
	root, err := path.ImageIndex()
	if err != nil {
		return nil, nil, err
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return nil, nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, nil, fmt.Errorf("index.json lists %d images, want 1", len(manifest.Manifests))
	}
	index, err = root.ImageIndex(manifest.Manifests[0].Digest)
	return index, remove, err
}

func unpack(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for tr := tar.NewReader(f); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("file %q is outside of the archive", header.Name)
		}
		target := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := create(target, func(w io.Writer) error { _, err := io.Copy(w, tr); return err }); err != nil {
			return err
		}
	}
}
