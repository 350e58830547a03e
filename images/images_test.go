package images

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// serve runs a registry with an index for both architectures, ours:v1, and a single image for amd64, vendor:v2.
func serve(t *testing.T, refuse func(http.ResponseWriter, *http.Request) bool) (host string) {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	refused := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !refused || !refuse(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range []string{"amd64", "arm64"} {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: imageFor(t, arch), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	if err := remote.WriteIndex(tag(t, host+"/ours:v1"), index); err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag(t, host+"/vendor:v2"), imageFor(t, "amd64")); err != nil {
		t.Fatal(err)
	}
	refused = refuse != nil
	return host
}

func tag(t *testing.T, ref string) name.Tag {
	t.Helper()
	parsed, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func imageFor(t *testing.T, arch string) v1.Image {
	t.Helper()
	img, err := random.Image(2048, 2)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}

// save writes an archive of images of a source.
func save(t *testing.T, from Source, archs []string, refs ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := Save(t.Context(), &out, from, refs, archs); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "images.tar")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSave(t *testing.T) {
	host := serve(t, nil)
	ours, vendors := host+"/ours:v1", host+"/vendor:v2"
	both := save(t, Registries{}, []string{"amd64"}, vendors, ours)
	again := save(t, Registries{}, []string{"amd64"}, ours, vendors, ours)
	if a, b := read(t, both), read(t, again); !bytes.Equal(a, b) {
		t.Error("the same images give other bytes in another order")
	}
	a, err := Open(t.Context(), opened(t, both))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{ours, vendors}, a.Names()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"amd64"}, a.images[0].archs); diff != "" {
		t.Error(diff)
	}

	// The archive of all architectures has the registry's own index, and lies in a folder as those of a release do.
	all := save(t, Registries{}, []string{"arm64", "amd64"}, ours)
	index, err := remote.Index(tag(t, ours))
	if err != nil {
		t.Fatal(err)
	}
	want, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = Open(t.Context(), opened(t, all)); err != nil || a.images[0].digest != want.String() {
		t.Fatalf("got %v and %v, want %s", a, err, want)
	}
	dir, err := OpenFolder(filepath.Dir(all))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	copied := save(t, dir, []string{"arm64"}, ours)
	fromRegistry := save(t, Registries{}, []string{"arm64"}, ours)
	if !bytes.Equal(read(t, copied), read(t, fromRegistry)) {
		t.Error("the folder gives other bytes than the registry")
	}
}

// hub plays Docker Hub.
type hub struct {
	Registries

	host string
}

func (h hub) here(ref string) string { return strings.Replace(ref, "docker.io/calico/", h.host+"/", 1) }

func (h hub) Root(ctx context.Context, ref string) (Document, error) {
	return h.Registries.Root(ctx, h.here(ref))
}

func (h hub) Manifest(ctx context.Context, ref string, digest v1.Hash) (Document, error) {
	return h.Registries.Manifest(ctx, h.here(ref), digest)
}

func (h hub) Blob(ctx context.Context, ref string, digest v1.Hash) (io.ReadCloser, error) {
	return h.Registries.Blob(ctx, h.here(ref), digest)
}

// The kubelet looks for complete references: an archive has those, whatever was typed.
func TestSave_ShortReference(t *testing.T) {
	from := hub{host: serve(t, nil)}
	path := save(t, from, []string{"amd64"}, "calico/ours:v1", "docker.io/calico/ours:v1")
	a, err := Open(t.Context(), opened(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"docker.io/calico/ours:v1"}, a.Names()); diff != "" {
		t.Error(diff)
	}
	// Another program may have written it under a short one of the same length. It is a source, and is not loaded as it is.
	const short = "calicocalicoca/ours:v1.0"
	other := filepath.Join(t.TempDir(), "other.tar")
	data := bytes.ReplaceAll(read(t, path), []byte("docker.io/calico/ours:v1"), []byte(short))
	if err := os.WriteFile(other, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), opened(t, other))
	if known := new(finding.Error); !errors.As(err, &known) || !strings.Contains(err.Error(), "want the complete reference docker.io/"+short) ||
		!strings.Contains(known.Hint, "an older ccmadm wrote it") {
		t.Errorf("got %#v", err)
	}
	dir, err := OpenFolder(filepath.Dir(other))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	if a, err = Open(t.Context(), opened(t, save(t, dir, []string{"amd64"}, short))); err != nil || a.Names()[0] != "docker.io/"+short {
		t.Errorf("got %v and %v", a, err)
	}
	err = Save(t.Context(), io.Discard, from, []string{"Calico/ours:v1", "calico/ours:v1"}, []string{"amd64"})
	if err == nil || !strings.Contains(err.Error(), "save image Calico/ours:v1: ") {
		t.Errorf("got %v", err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSave_NamesAllThatIsMissing(t *testing.T) {
	host := serve(t, nil)
	var out bytes.Buffer
	err := Save(t.Context(), &out, Registries{}, []string{host + "/ours:v9", host + "/ours:v1", host + "/vendor:v2"}, []string{"arm64"})
	for _, want := range []string{"/ours:v9: it does not exist", "/vendor:v2: it has no image for arm64"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if out.Len() > 0 {
		t.Error("something was written")
	}
}

func TestVerify(t *testing.T) {
	for _, tt := range []struct {
		name   string
		refuse func(http.ResponseWriter, *http.Request) bool
		ref    string
		want   State
		reason string
	}{
		{name: "it is there", ref: "ours:v1", want: StateThere},
		{name: "an image without an index", ref: "vendor:v2", want: StateArchitecture},
		{name: "the tag is not published", ref: "ours:v9", want: StateMissing, reason: "MANIFEST_UNKNOWN"},
		{name: "no repository of that name", ref: "theirs:v1", want: StateMissing, reason: "NAME_UNKNOWN"},
		{name: "another server at its address", refuse: status(http.StatusNotFound), ref: "ours:v1", want: StateUnknown, reason: "404"},
		{name: "its token server is not there", refuse: noToken, ref: "ours:v1", want: StateUnknown, reason: "404"},
		{name: "denied", refuse: status(http.StatusForbidden), ref: "ours:v1", want: StateUnknown, reason: "403"},
		{name: "not logged in", refuse: status(http.StatusUnauthorized), ref: "ours:v1", want: StateUnknown, reason: "401"},
		{name: "too many requests", refuse: status(http.StatusTooManyRequests), ref: "ours:v1", want: StateUnknown, reason: "429"},
		{name: "its proxy cannot reach it", refuse: status(http.StatusBadGateway), ref: "ours:v1", want: StateUnknown, reason: "502"},
		{name: "it hangs up", refuse: hangUp, ref: "ours:v1", want: StateUnknown, reason: "EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			host := serve(t, tt.refuse)
			got := Verify(t.Context(), Registries{}, []string{host + "/" + tt.ref}, []string{"arm64"})
			if len(got) != 1 || got[0].State != tt.want || !strings.Contains(got[0].Reason, tt.reason) {
				t.Errorf("got %+v, want %q because of %q", got, tt.want, tt.reason)
			}
		})
	}
}

func status(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(code)
		return true
	}
}

// noToken names a token server that answers 404.
func noToken(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path == "/token" {
		http.NotFound(w, r)
		return true
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="test"`)
	w.WriteHeader(http.StatusUnauthorized)
	return true
}

func hangUp(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

func TestVerify_NoSuchHost(t *testing.T) {
	got := Verify(t.Context(), Registries{}, []string{"registry.invalid/ours:v1"}, []string{"amd64"})
	if got[0].State != StateUnknown || got[0].Reason == "" {
		t.Errorf("got %+v", got)
	}
}

// containerd plays ctr: it has what was imported.
func containerd(t *testing.T, has map[string]string, imports *int, imported map[string]string) *machinetest.Commands {
	t.Helper()
	_, runner := machinetest.New(t)
	for ref, digest := range has {
		runner.Answers["ctr --namespace k8s.io images list name=="+ref] = "REF TYPE DIGEST\n" + ref + " index " + digest + " 1 B linux/amd64 -\n"
	}
	runner.During = func(line string) {
		if strings.HasPrefix(line, "ctr --namespace k8s.io images import") {
			*imports++
			for ref, digest := range imported {
				runner.Answers["ctr --namespace k8s.io images list name=="+ref] = "REF TYPE DIGEST\n" + ref + " index " + digest + " 1 B linux/amd64 -\n"
			}
		}
	}
	return runner
}

func TestLoad(t *testing.T) {
	host := serve(t, nil)
	ours := host + "/ours:v1"
	a, err := Open(t.Context(), opened(t, save(t, Registries{}, []string{"amd64", "arm64"}, ours)))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]string{ours: a.images[0].digest}
	for _, tt := range []struct {
		name, arch    string
		has, imported map[string]string
		fails         error
		want          []string
		imports       int
		wantErr       string
		code          finding.ExitCode
	}{
		{name: "nothing is there", arch: "amd64", imported: there, want: []string{ours}, imports: 1},
		{name: "it is there", arch: "arm64", has: there},
		{name: "other content of that name", arch: "amd64", has: map[string]string{ours: "sha256:00"}, imported: there, want: []string{ours}, imports: 1},
		{name: "another architecture", arch: "riscv64", wantErr: "and this machine is linux/riscv64", code: finding.ExitRefused},
		{name: "containerd refuses", arch: "amd64", fails: errors.New("exit status 1"), imports: 1, wantErr: "run ctr images import: exit status 1"},
		{name: "it lies", arch: "amd64", imports: 1, wantErr: "containerd has other content still"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			imports := 0
			runner := containerd(t, tt.has, &imports, tt.imported)
			if tt.fails != nil {
				runner.Fails["ctr --namespace k8s.io images import"] = tt.fails
			}
			m, _ := machinetest.New(t)
			m.Runner = runner
			got, err := a.Load(t.Context(), m, tt.arch)
			if imports != tt.imports {
				t.Errorf("%d imports, want %d", imports, tt.imports)
			}
			if tt.wantErr != "" {
				var known *finding.Error
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) || tt.code != 0 && (!errors.As(err, &known) || known.Code != tt.code) {
					t.Errorf("got %v, want %q", err, tt.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

// TestOpen_Changed flips a byte in each 64 of an archive: none goes through, but those of the tar's own padding and names of
// owners.
func TestOpen_Changed(t *testing.T) {
	host := serve(t, nil)
	data := read(t, save(t, Registries{}, []string{"amd64"}, host+"/vendor:v2"))
	path := filepath.Join(t.TempDir(), "changed.tar")
	blob := bytes.Index(data, []byte("blobs/sha256/")) + 512 // the first file that is named by its digest
	for _, at := range []int{blob, blob + 60, bytes.Index(data, []byte(`"layers"`)), 0, bytes.Index(data, []byte(`"digest":"sha256:`)) + 20} {
		changed := bytes.Clone(data)
		changed[at] ^= 1
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), opened(t, path)); err == nil || !strings.Contains(err.Error(), "read archive "+path) {
			t.Errorf("byte %d: got %v", at, err)
		}
	}
	if err := os.WriteFile(path, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), opened(t, path)); err == nil {
		t.Error("half of an archive goes through")
	}
}
