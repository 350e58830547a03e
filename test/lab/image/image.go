// Package image writes a container image as a `docker load` archive, without Docker and without a registry.
//
// Start at [Write]. Every image has exactly one layer.
//
// Reads: the files named in the [Spec]. Writes: one archive, atomically.
// Running it twice gives the same bytes: names are sorted, times are zero, owners are root. A setuid bit stays.
// It does not push, pull or run anything.
package image

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/renameio/v2"
)

// Spec says what an image holds and how it starts.
type Spec struct {
	// Name is the reference under which a node knows the image, with its tag.
	Name string
	// Files maps an absolute path in the image to the file on this machine.
	Files map[string]string
	// Links maps an absolute path in the image to the relative path to which a symbolic link there leads.
	Links map[string]string
	// Entrypoint is the program. Command is its arguments, or the program where a pod's arguments are to replace it.
	Entrypoint []string
	Command    []string
	// User is numeric, or empty for root.
	User string
	Env  []string
}

// Write makes the image and puts it into the archive.
func Write(archive string, spec Spec) error {
	tag, err := name.NewTag(spec.Name, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("image name %q: %w", spec.Name, err)
	}
	layerFile, err := os.CreateTemp(filepath.Dir(archive), ".layer-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(layerFile.Name()) }()
	defer func() { _ = layerFile.Close() }()
	if err := writeLayer(layerFile, spec); err != nil {
		return fmt.Errorf("write layer of %s: %w", spec.Name, err)
	}
	img, err := assemble(layerFile.Name(), spec)
	if err != nil {
		return fmt.Errorf("assemble image %s: %w", spec.Name, err)
	}
	out, err := renameio.NewPendingFile(archive, renameio.WithPermissions(0o644))
	if err != nil {
		return err
	}
	defer func() { _ = out.Cleanup() }()
	if err := tarball.Write(tag, img, out); err != nil {
		return fmt.Errorf("write archive %s: %w", archive, err)
	}
	return out.CloseAtomicallyReplace()
}

func assemble(layerFile string, spec Spec) (v1.Image, error) {
	// These archives travel inside one machine: speed matters, size does not.
	layer, err := tarball.LayerFromFile(layerFile, tarball.WithCompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: spec.Entrypoint, Cmd: spec.Command, User: spec.User, Env: spec.Env}
	return mutate.ConfigFile(img, config)
}

func writeLayer(w io.Writer, spec Spec) error {
	tw := tar.NewWriter(w)
	names := slices.Concat(slices.Collect(maps.Keys(spec.Files)), slices.Collect(maps.Keys(spec.Links)))
	for _, target := range names {
		if !path.IsAbs(target) || path.Clean(target) != target {
			return fmt.Errorf("path in image %q: want a clean absolute path", target)
		}
	}
	slices.Sort(names)
	for _, dir := range parents(names) {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0)}
		if err := tw.WriteHeader(header); err != nil {
			return err
		}
	}
	for _, target := range names {
		if err := add(tw, target, spec); err != nil {
			return err
		}
	}
	return tw.Close()
}

// parents returns every directory above the names, each once and before what it holds. /tmp is always there:
// programs such as klog write to it and an image from scratch has none.
func parents(names []string) []string {
	dirs := []string{"tmp"}
	for _, n := range names {
		for dir := path.Dir(n); dir != "/"; dir = path.Dir(dir) {
			dirs = append(dirs, strings.TrimPrefix(dir, "/"))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func add(tw *tar.Writer, target string, spec Spec) error {
	link, is := spec.Links[target]
	if !is {
		return addFile(tw, target, spec.Files[target])
	}
	return tw.WriteHeader(&tar.Header{
		Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(target, "/"), Linkname: link, Mode: 0o777, ModTime: time.Unix(0, 0),
	})
}

func addFile(tw *tar.Writer, target, source string) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "archive", Path: source, Err: fs.ErrInvalid}
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: strings.TrimPrefix(target, "/"), Size: info.Size(),
		Mode: int64(info.Mode().Perm()), ModTime: time.Unix(0, 0),
	}
	if info.Mode()&fs.ModeSetuid != 0 {
		header.Mode |= 0o4000
	}
	if err := tw.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return err
}
