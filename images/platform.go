package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
}

// resolve reads the manifests of a reference for Linux: of these architectures, or of all if none is given.
func resolve(ctx context.Context, from Source, ref string, archs []string) (*resolved, error) {
	root, err := from.Root(ctx, ref)
	if err != nil {
		return nil, err
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
	kept := slices.DeleteFunc(slices.Clone(index.Manifests), func(d v1.Descriptor) bool {
		return d.Platform == nil || d.Platform.OS != "linux" || len(archs) > 0 && !slices.Contains(archs, d.Platform.Architecture)
	})
	for _, d := range kept {
		manifest, err := from.Manifest(ctx, ref, d.Digest)
		if err != nil {
			return nil, fmt.Errorf("read its manifest %s for %s: %w", d.Digest, d.Platform, err)
		}
		if err := sameDigest(d.Digest, manifest.Data); err != nil {
			return nil, err
		}
		one, err := parts(manifest)
		if err != nil {
			return nil, err
		}
		one.arch, one.descriptor = d.Platform.Architecture, d
		found.images = append(found.images, one)
	}
	if len(kept) < len(index.Manifests) {
		index.Manifests = kept
		if found.root.Data, err = json.Marshal(index); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// readImage is for a reference without an index: the image's own configuration says for what it is.
func readImage(ctx context.Context, from Source, ref string, manifest Document) (image, error) {
	one, err := parts(manifest)
	if err != nil {
		return one, err
	}
	blob, err := from.Blob(ctx, ref, one.parts[0].Digest)
	if err != nil {
		return one, fmt.Errorf("read its configuration: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(blob, maxDocument))
	if closed := blob.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return one, fmt.Errorf("read its configuration: %w", err)
	}
	if err := sameDigest(one.parts[0].Digest, data); err != nil {
		return one, err
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(data))
	if err != nil {
		return one, fmt.Errorf("parse its configuration: %w", err)
	}
	if config.OS != "linux" {
		return one, fmt.Errorf("it is for %q, want linux", config.OS)
	}
	one.arch, one.descriptor = config.Architecture, descriptorOf(manifest)
	return one, nil
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

// tagOf is the end of a reference, for tools that know images by it alone.
func tagOf(ref string) string {
	_, tag, _ := strings.Cut(ref[strings.LastIndex(ref, "/")+1:], ":")
	return tag
}
