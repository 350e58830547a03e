package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestImage(t *testing.T) {
	index, remove, err := openImage(filepath.Join(made.dir, "cloud-controller-manager_v0.1.0_image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.MediaType != types.OCIImageIndex {
		t.Errorf("media type is %s", manifest.MediaType)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		version := config.Config.Labels["org.opencontainers.image.version"]
		if config.Config.User != "65532" || config.Architecture != m.Platform.Architecture || version != "v0.1.0" {
			t.Errorf("config of %s: %+v", m.Platform, config)
		}
		content := mutate.Extract(img)
		program, err := tarFile(content, strings.TrimPrefix(config.Config.Entrypoint[0], "/"))
		_ = content.Close()
		if err != nil || !strings.HasPrefix(program, "\x7fELF") {
			t.Errorf("entry point of %s is no program: %v", m.Platform, err)
		}
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
}

// TestPush: what a registry has afterwards is what is in the archives, by digest.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://") + "/mirror"
	var out strings.Builder
	if err := push(t.Context(), made.dir, "v0.1.0", host, &out); err != nil {
		t.Fatal(err)
	}
	for _, p := range programs() {
		tag, err := name.NewTag(host + "/" + p.name + ":v0.1.0")
		if err != nil {
			t.Fatal(err)
		}
		pushed, err := remote.Index(tag)
		if err != nil {
			t.Fatal(err)
		}
		got, err := pushed.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), host+"/"+p.name+"@"+got.String()+"\n") {
			t.Errorf("the registry has %s of %s, printed was\n%s", got, p.name, out.String())
		}
	}
}

// The limit is met before a release is wanted: this is the program of the commit, compiled as a release compiles it.
func TestCheckSize_Program(t *testing.T) {
	file, on := filepath.Join(t.TempDir(), "ccmadm"), platform{"linux", "amd64"}
	if err := compiler("..", "v0.0.0-size")(t.Context(), "ccmadm", on, file); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkSize("ccmadm", on, info.Size()); err != nil {
		t.Error(err)
	}
	t.Logf("ccmadm for %s: %d bytes", on, info.Size())
}

func TestCheckSize(t *testing.T) {
	linux, darwin := platform{"linux", "amd64"}, platform{"darwin", "arm64"}
	for _, tt := range []struct {
		program string
		on      platform
		size    int64
		wantErr bool
	}{
		{"ccmadm", linux, maxCLI, false},
		{"ccmadm", linux, maxCLI + 1, true},
		{"ccmadm", darwin, maxCLI + 1, false},
		{"cloud-controller-manager", linux, maxCLI + 1, false},
	} {
		if err := checkSize(tt.program, tt.on, tt.size); (err != nil) != tt.wantErr {
			t.Errorf("checkSize(%s, %s, %d): got %v, want an error: %v", tt.program, tt.on, tt.size, err, tt.wantErr)
		}
	}
}
