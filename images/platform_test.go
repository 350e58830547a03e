package images

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
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
