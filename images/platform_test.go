package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// push writes an index of these images, and returns its digest.
func push(t *testing.T, ref string, list ...mutate.IndexAddendum) v1.Hash {
	t.Helper()
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), list...)
	if err := remote.WriteIndex(tag(t, ref), index); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// signature is a manifest that is no image.
func signature(t *testing.T) v1.Image {
	t.Helper()
	return mutate.ConfigMediaType(imageFor(t, ""), "application/vnd.example.signature+json")
}

// An index need not say for what its images are.
func TestPlatform_OfTheConfiguration(t *testing.T) {
	ref := serve(t, nil) + "/plain:v1"
	push(t, ref, mutate.IndexAddendum{Add: imageFor(t, "amd64")}, mutate.IndexAddendum{Add: imageFor(t, "arm64")},
		mutate.IndexAddendum{Add: signature(t)}, mutate.IndexAddendum{Add: empty.Index})
	var states []State
	for _, s := range Verify(t.Context(), Registries{}, []string{ref}, []string{"amd64", "arm64", "riscv64"}) {
		states = append(states, s.State)
	}
	if diff := cmp.Diff([]State{StateThere, StateThere, StateArchitecture}, states); diff != "" {
		t.Error(diff)
	}
	a, err := Open(t.Context(), opened(t, save(t, Registries{}, []string{"arm64"}, ref)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"arm64"}, a.images[0].archs); diff != "" {
		t.Error(diff)
	}
}

// What a reference by digest names has that digest, whatever is left out of the archive.
func TestSave_ByDigest(t *testing.T) {
	name := serve(t, nil) + "/many"
	var list []mutate.IndexAddendum
	for _, p := range []v1.Platform{
		{OS: "linux", Architecture: "amd64"},
		{OS: "linux", Architecture: "arm64"},
		{OS: "linux", Architecture: "386"},
		{OS: "windows", Architecture: "amd64"},
	} {
		list = append(list, mutate.IndexAddendum{Add: imageFor(t, p.Architecture), Descriptor: v1.Descriptor{Platform: &p}})
	}
	unknown := v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}}
	digest := push(t, name+":v1", append(list, mutate.IndexAddendum{Add: signature(t), Descriptor: unknown})...)
	ref := name + "@" + digest.String()
	path := save(t, Registries{}, []string{"amd64"}, ref)
	a, err := Open(t.Context(), opened(t, path))
	if err != nil {
		t.Fatal(err)
	}
	want := []archived{{name: ref, digest: digest.String(), archs: []string{"amd64"}}}
	if diff := cmp.Diff(want, a.images, cmp.AllowUnexported(archived{})); diff != "" {
		t.Error(diff)
	}
	m, _ := machinetest.New(t)
	_, err = a.Load(t.Context(), m, "arm64")
	wantErr(t, err, "the archive has it for linux/amd64, and this machine is linux/arm64")

	// containerd reads manifests of more platforms than its own.
	f := openFolder(t, filepath.Dir(path))
	for _, i := range list {
		of, err := i.Add.(v1.Image).Digest()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Manifest(t.Context(), ref, of); err != nil {
			t.Error(err)
		}
	}
	if again := save(t, f, []string{"amd64"}, ref); !bytes.Equal(read(t, again), read(t, path)) {
		t.Error("the folder gives other bytes than the registry")
	}

	// An older Save left manifests out of the index, and gave the rest the name.
	other := filepath.Join(t.TempDir(), "other.tar")
	wrong := name + "@sha256:" + strings.Repeat("0", 64)
	if err := os.WriteFile(other, bytes.ReplaceAll(read(t, path), []byte(ref), []byte(wrong)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), opened(t, other))
	wantErr(t, err, "image "+wrong+": its digest is "+digest.String())
	if known := new(finding.Error); !errors.As(err, &known) || !strings.Contains(known.Hint, "an older ccmadm wrote it") {
		t.Errorf("got %#v", err)
	}
}

// shared pushes an index for amd64 and arm64 whose images share a layer, and returns its reference by digest, and the digest of a layer
// that only the image for amd64 has.
func shared(t *testing.T, name string) (ref string, own v1.Hash) {
	t.Helper()
	layer, err := random.Layer(2048, types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	var list []mutate.IndexAddendum
	for _, arch := range []string{"amd64", "arm64"} {
		img, err := mutate.AppendLayers(imageFor(t, arch), layer)
		if err != nil {
			t.Fatal(err)
		}
		if arch == "amd64" {
			m, err := img.Manifest()
			if err != nil {
				t.Fatal(err)
			}
			own = m.Layers[0].Digest
		}
		list = append(list, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	digest := push(t, name+":v1", list...)
	return name + "@" + digest.String(), own
}

// An archive has the whole index of a reference by digest, and need not have the layers of each architecture: Save names all images
// that lack some before it writes anything.
func TestSave_FolderLacksLayers(t *testing.T) {
	host := serve(t, nil)
	one, _ := shared(t, host+"/one")
	two, _ := shared(t, host+"/two")
	path := save(t, Registries{}, []string{"amd64"}, one, two)
	if _, err := Open(t.Context(), opened(t, path)); err != nil {
		t.Errorf("the layer that both images share: %v", err)
	}
	f := openFolder(t, filepath.Dir(path))
	var out bytes.Buffer
	err := Save(t.Context(), &out, f, []string{one, two}, []string{"amd64", "arm64"})
	wantErr(t, err, "save image "+one+": it has no image for arm64", "save image "+two+": it has no image for arm64")
	if out.Len() > 0 {
		t.Error("something was written")
	}
}

// An archive that has lost a layer is damaged, and is not taken for one of the other architecture.
func TestOpen_LostLayer(t *testing.T) {
	ref, own := shared(t, serve(t, nil)+"/many")
	damaged := without(t, save(t, Registries{}, []string{"amd64", "arm64"}, ref), blobName(own))
	_, err := Open(t.Context(), opened(t, damaged))
	wantErr(t, err, "image "+ref+" for linux/amd64 is incomplete: read "+own.String()+": open "+blobName(own)+": file does not exist")
}

// without copies a tar, but for one of its files.
func without(t *testing.T, path, name string) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for r := tar.NewReader(bytes.NewReader(read(t, path))); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == name {
			continue
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "damaged.tar")
	if err := os.WriteFile(copied, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}
