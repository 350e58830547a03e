package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Media types of charts: helm.sh/helm/v4/pkg/registry.
const (
	chartConfigType types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartLayerType  types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chartName is Helm's own name for the archive, whose version has no v.
func (r *release) chartName() string { return "ccmadm-" + r.version[1:] + ".tgz" }

// writeChart has the released ccmadm write its chart, and packs it as Helm does.
func (r *release) writeChart(ctx context.Context, file string) error {
	dir := filepath.Join(r.work, "chart")
	if _, err := r.run(ctx, "render", "-o", "helm", "--output-dir", dir); err != nil {
		return err
	}
	names, err := filesBelow(dir)
	if err != nil {
		return err
	}
	var entries []entry
	for _, name := range names {
		entries = append(entries, entry{name: "ccmadm/" + name, mode: 0o644, file: filepath.Join(dir, name)})
	}
	entries = append(entries, entry{name: "ccmadm/LICENSE", mode: 0o644, file: filepath.Join(r.source, "LICENSE")})
	return r.pack(file, entries)
}

// pushChart sends the chart to registry/charts/ccmadm:VERSION, as `helm push` does, and prints its digest.
func pushChart(ctx context.Context, dir, version, registry string, out io.Writer) error {
	archive := (&release{version: version}).chartName()
	reference := registry + "/charts/ccmadm:" + version[1:]
	tag, err := name.NewTag(reference, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("chart name %q: %w", reference, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, archive))
	if err != nil {
		return fmt.Errorf("push chart: %w", err)
	}
	artefact, err := chartArtefact(data)
	if err != nil {
		return fmt.Errorf("push %s as %s: %w", archive, tag, err)
	}
	if err := remote.Write(tag, artefact, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s as %s: %w", archive, tag, err)
	}
	pushed, err := artefact.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, tag.Digest(pushed.String()))
	return err
}

// chartArtefact is an OCI manifest with the archive as its only layer, and Chart.yaml as JSON as its config.
func chartArtefact(archive []byte) (v1.Image, error) {
	zr, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	about, err := tarFile(zr, "ccmadm/Chart.yaml")
	if err != nil {
		return nil, err
	}
	config, err := yaml.YAMLToJSON([]byte(about))
	if err != nil {
		return nil, fmt.Errorf("decode Chart.yaml: %w", err)
	}
	c := &chart{config: config, layer: static.NewLayer(archive, chartLayerType)}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	if manifest.Config, err = describe(static.NewLayer(config, chartConfigType)); err != nil {
		return nil, err
	}
	layer, err := describe(c.layer)
	if err != nil {
		return nil, err
	}
	manifest.Layers = []v1.Descriptor{layer}
	if c.manifest, err = json.Marshal(manifest); err != nil {
		return nil, err
	}
	return partial.CompressedToImage(c)
}

// describe is the descriptor of a blob.
func describe(blob v1.Layer) (d v1.Descriptor, err error) {
	if d.MediaType, err = blob.MediaType(); err != nil {
		return d, err
	}
	if d.Digest, err = blob.Digest(); err != nil {
		return d, err
	}
	d.Size, err = blob.Size()
	return d, err
}

// chart is what go-containerregistry needs of an artefact that is no image.
type chart struct {
	config, manifest []byte
	layer            v1.Layer
}

var _ partial.CompressedImageCore = (*chart)(nil)

// RawConfigFile returns the config as it is pushed.
func (c *chart) RawConfigFile() ([]byte, error) { return c.config, nil }

// MediaType is that of the manifest.
func (c *chart) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest returns the manifest as it is pushed.
func (c *chart) RawManifest() ([]byte, error) { return c.manifest, nil }

// LayerByDigest returns the archive, which is the only one.
func (c *chart) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return c.layer, nil }
