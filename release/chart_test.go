package main

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// What a registry has of the chart is what `helm pull oci://` takes: the archive as the only layer, with Helm's media types.
func TestPush_Chart(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://") + "/mirror"
	var out strings.Builder
	if err := pushChart(t.Context(), made.dir, "v0.1.0", host, &out); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(host + "/charts/ccmadm:0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(tag)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != chartLayerType || manifest.Config.MediaType != chartConfigType {
		t.Fatalf("manifest: %+v", manifest)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"name":"ccmadm","version":"0.1.0"}`, string(config)); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	layer, err := image.LayerByDigest(manifest.Layers[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	content, err := layer.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	if want := read(t, made.dir+"/ccmadm-0.1.0.tgz"); string(data) != string(want) {
		t.Errorf("the layer has %d bytes, which are not the %d of the archive", len(data), len(want))
	}
	if want := host + "/charts/ccmadm@sha256:"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("printed was %q, want %s...", out.String(), want)
	}
}
