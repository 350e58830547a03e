package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Source has images. Its two implementations are [Registries] and a [Folder].
type Source interface {
	// Root returns what a reference names: an index or a manifest. The error is [ErrMissing] only if the source certainly lacks it.
	Root(ctx context.Context, ref string) (Document, error)
	// Manifest returns a manifest of a reference's index.
	Manifest(ctx context.Context, ref string, digest v1.Hash) (Document, error)
	// Blob opens a configuration or a layer. The caller compares its digest.
	Blob(ctx context.Context, ref string, digest v1.Hash) (io.ReadCloser, error)
}

// Document is an index or a manifest, byte for byte.
type Document struct {
	Type types.MediaType
	Data []byte
}

// ErrMissing says that a source was asked and lacks an image.
var ErrMissing = errors.New("it does not exist")

// Registries are those that references name. They are asked anonymously or with the credentials in the docker configuration
// of this user (DOCKER_CONFIG, ~/.docker/config.json), its credential helpers included.
type Registries struct {
	// UserAgent is sent along.
	UserAgent string
}

var _ Source = Registries{}

// Root asks for the index or the manifest of a tag or a digest.
func (r Registries) Root(ctx context.Context, ref string) (Document, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return Document{}, err
	}
	return r.document(ctx, parsed)
}

// Manifest asks for a manifest by its digest.
func (r Registries) Manifest(ctx context.Context, ref string, digest v1.Hash) (Document, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return Document{}, err
	}
	return r.document(ctx, parsed.Context().Digest(digest.String()))
}

func (r Registries) document(ctx context.Context, ref name.Reference) (Document, error) {
	d, err := remote.Get(ref, r.options(ctx)...)
	if err != nil {
		return Document{}, explain(err)
	}
	return Document{Type: d.MediaType, Data: d.Manifest}, nil
}

// Blob asks for a blob by its digest.
func (r Registries) Blob(ctx context.Context, ref string, digest v1.Hash) (io.ReadCloser, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return nil, err
	}
	layer, err := remote.Layer(parsed.Context().Digest(digest.String()), r.options(ctx)...)
	if err != nil {
		return nil, explain(err)
	}
	blob, err := layer.Compressed()
	return blob, explain(err)
}

func (r Registries) options(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent(r.UserAgent),
	}
}

// explain tells a registry that answers that it lacks an image from one that says anything else, or nothing. Where a proxy or a token
// server answers 404, no registry was asked.
func explain(err error) error {
	var answer *transport.Error
	if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound && ofImage(answer.Request) {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return err
}

// ofImage tells a request for an image from those before it: of the registry's version, and of a token.
func ofImage(r *http.Request) bool {
	return r != nil && (strings.Contains(r.URL.Path, "/manifests/") || strings.Contains(r.URL.Path, "/blobs/"))
}
