package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// maxDocument limits the size in bytes of an index, a manifest and a configuration, which registries keep below 4 MiB, too.
const maxDocument = 4 << 20

// image is one image for one platform.
type image struct {
	arch       string
	descriptor v1.Descriptor // of its manifest
	manifest   Document
	parts      []v1.Descriptor // its configuration and layers
}

// resolved is what a reference names.
type resolved struct {
	ref    string
	root   Document
	images []image
	// rest are manifests that the root lists beside those of the images. There are some under a reference by digest alone: the root of a
	// tag is without them.
	rest []v1.Descriptor
}

// errDigest is other content than what a reference by digest names, as an older [Save] wrote it for fewer architectures.
var errDigest = errors.New("its digest is")

// resolve reads the manifests of a reference for Linux: of these architectures, or of all if none is given.
func resolve(ctx context.Context, from Source, ref string, archs []string) (*resolved, error) {
	root, err := from.Root(ctx, ref)
	if err != nil {
		return nil, err
	}
	digest, byDigest := digestOf(ref)
	if got := descriptorOf(root).Digest.String(); byDigest && got != digest {
		return nil, fmt.Errorf("%w %s", errDigest, got)
	}
	found := &resolved{ref: ref, root: root}
	if !root.Type.IsIndex() {
		one, err := readImage(ctx, from, ref, root)
		if err != nil {
			return nil, err
		}
		if len(archs) == 0 || slices.Contains(archs, one.arch) {
			found.images = []image{one}
		}
		return found, nil
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(root.Data))
	if err != nil {
		return nil, fmt.Errorf("parse its index: %w", err)
	}
	kept := []v1.Descriptor{}
	for _, d := range index.Manifests {
		one, wanted, err := child(ctx, from, ref, d, archs)
		if err != nil {
			return nil, err
		}
		if wanted {
			kept, found.images = append(kept, d), append(found.images, one)
		} else {
			found.rest = append(found.rest, d)
		}
	}
	if byDigest || len(found.rest) == 0 {
		return found, nil
	}
	index.Manifests, found.rest = kept, nil
	if found.root.Data, err = json.Marshal(index); err != nil {
		return nil, err
	}
	return found, nil
}

// child reads an image of an index. It is not wanted for another system than Linux, and for another architecture than these, if there
// are some. An index need not say for what its images are: their own configurations do.
func child(ctx context.Context, from Source, ref string, d v1.Descriptor, archs []string) (one image, wanted bool, err error) {
	wants := func(system, arch string) bool {
		return system == "linux" && (len(archs) == 0 || slices.Contains(archs, arch))
	}
	if d.Platform != nil && !wants(d.Platform.OS, d.Platform.Architecture) || d.Platform == nil && !d.MediaType.IsImage() {
		return one, false, nil
	}
	manifest, err := from.Manifest(ctx, ref, d.Digest)
	if err != nil {
		return one, false, fmt.Errorf("read its manifest %s: %w", d.Digest, err)
	}
	if err := sameDigest(d.Digest, manifest.Data); err != nil {
		return one, false, err
	}
	if one, err = parts(manifest); err != nil {
		return one, false, err
	}
	one.descriptor = d
	if d.Platform != nil {
		one.arch = d.Platform.Architecture
		return one, true, nil
	}
	if !one.parts[0].MediaType.IsConfig() { // of a signature, say
		return one, false, nil
	}
	config, err := configuration(ctx, from, ref, one)
	if err != nil {
		return one, false, err
	}
	one.arch = config.Architecture
	return one, wants(config.OS, config.Architecture), nil
}

// readImage is for a reference without an index.
func readImage(ctx context.Context, from Source, ref string, manifest Document) (image, error) {
	one, err := parts(manifest)
	if err != nil {
		return one, err
	}
	config, err := configuration(ctx, from, ref, one)
	if err != nil {
		return one, err
	}
	if config.OS != "linux" {
		return one, fmt.Errorf("it is for %q, want linux", config.OS)
	}
	one.arch, one.descriptor = config.Architecture, descriptorOf(manifest)
	return one, nil
}

// configuration reads the image's own, which says for what it is.
func configuration(ctx context.Context, from Source, ref string, one image) (*v1.ConfigFile, error) {
	blob, err := from.Blob(ctx, ref, one.parts[0].Digest)
	if err != nil {
		return nil, fmt.Errorf("read its configuration: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(blob, maxDocument))
	if closed := blob.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, fmt.Errorf("read its configuration: %w", err)
	}
	if err := sameDigest(one.parts[0].Digest, data); err != nil {
		return nil, err
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("parse its configuration: %w", err)
	}
	return config, nil
}

func parts(manifest Document) (image, error) {
	if !manifest.Type.IsImage() {
		return image{}, fmt.Errorf("read its manifest: media type %q is no image's", manifest.Type)
	}
	m, err := v1.ParseManifest(bytes.NewReader(manifest.Data))
	if err != nil {
		return image{}, fmt.Errorf("parse its manifest: %w", err)
	}
	return image{manifest: manifest, parts: append([]v1.Descriptor{m.Config}, m.Layers...)}, nil
}

// lacks lists those of the architectures that there is no image for.
func (r *resolved) lacks(archs []string) []string {
	return slices.DeleteFunc(slices.Clone(archs), func(arch string) bool {
		return slices.ContainsFunc(r.images, func(i image) bool { return i.arch == arch })
	})
}

func descriptorOf(d Document) v1.Descriptor {
	sum := sha256.Sum256(d.Data)
	return v1.Descriptor{
		MediaType: d.Type, Size: int64(len(d.Data)),
		Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])},
	}
}

func sameDigest(want v1.Hash, data []byte) error {
	if got := descriptorOf(Document{Data: data}).Digest; got != want {
		return fmt.Errorf("compare digests: got %s, want %s", got, want)
	}
	return nil
}

// mediaType is what a document says of itself; indexes and manifests of OCI need not.
func mediaType(said types.MediaType, data []byte) types.MediaType {
	var own struct {
		MediaType types.MediaType   `json:"mediaType"`
		Manifests []json.RawMessage `json:"manifests"`
	}
	switch err := json.Unmarshal(data, &own); {
	case said != "" || err != nil:
		return said
	case own.MediaType != "":
		return own.MediaType
	case own.Manifests != nil:
		return types.OCIImageIndex
	}
	return types.OCIManifestSchema1
}

// digestOf is the digest in a reference by digest. What has that name has that digest, on every machine.
func digestOf(ref string) (digest string, is bool) {
	_, digest, is = strings.Cut(ref, "@")
	return digest, is
}

// tagOf is the end of a reference, for tools that know images by it alone.
func tagOf(ref string) string {
	_, tag, _ := strings.Cut(ref[strings.LastIndex(ref, "/")+1:], ":")
	return tag
}
