package images

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
)

const wanted = "registry.example/ours:v1"

// unpacked writes an image into a folder, as skopeo copy does.
func unpacked(t *testing.T, dir, name string) v1.Hash {
	t.Helper()
	path, err := ocilayout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	img := imageFor(t, "amd64")
	var annotations map[string]string
	if name != "" {
		annotations = map[string]string{refAnnotation: name}
	}
	if err := path.AppendImage(img, ocilayout.WithAnnotations(annotations)); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// openFolder closes it at the end of the test.
func openFolder(t *testing.T, dir string) *Folder {
	t.Helper()
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// wantErr looks for each of these in an error.
func wantErr(t *testing.T, err error, want ...string) {
	t.Helper()
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("got %v, want %q", err, w)
		}
	}
}

// Layouts that skopeo makes have the names that it was given: a tag alone, or none.
func TestOpenFolder_Names(t *testing.T) {
	dir := t.TempDir()
	unpacked(t, filepath.Join(dir, "ours"), wanted)
	for i, name := range []string{"v1.0", "v1.0", "", ""} {
		unpacked(t, filepath.Join(dir, fmt.Sprint("other", i)), name)
	}
	one := unpacked(t, filepath.Join(dir, "twice1"), "registry.example/twice:v1")
	two := unpacked(t, filepath.Join(dir, "twice2"), "registry.example/twice:v1")
	f := openFolder(t, dir)
	if err := Save(t.Context(), io.Discard, f, []string{wanted}, []string{"amd64"}); err != nil {
		t.Error(err)
	}
	err := Save(t.Context(), io.Discard, f, []string{wanted, "registry.example/twice:v1"}, []string{"amd64"})
	wantErr(t, err, "save image registry.example/twice:v1: look in "+dir+": it is there twice, in "+filepath.Join(dir, "twice1")+" as "+
		one.String()+" and in "+filepath.Join(dir, "twice2")+" as "+two.String())
	err = Save(t.Context(), io.Discard, f, []string{"registry.example/other:v1.0"}, []string{"amd64"})
	wantErr(t, err, "no image that can be used has this name", "read "+filepath.Join(dir, "other0")+": the name of image sha256:",
		`is "v1.0": want a complete reference`, `is "": want a complete reference`)
}

// In a folder of a release, what is signed is the list of digests: an archive that is not in it, or not as in it, is not used.
func TestOpenFolder_Sums(t *testing.T) {
	good := read(t, save(t, hub{host: serve(t, nil)}, []string{"amd64"}, "calico/ours:v1"))
	other := read(t, save(t, hub{host: serve(t, nil)}, []string{"arm64"}, "calico/ours:v1"))
	digest := fmt.Sprintf("%x", sha256.Sum256(good))
	sums := digest + "  good.tar\n"
	const refused = "SHA256SUMS in this folder does not list its digest "
	for _, tt := range []struct {
		name, sums, want string
		files            map[string][]byte
	}{
		{name: "as listed", sums: sums, files: map[string][]byte{"good.tar": good}},
		{name: "no list", files: map[string][]byte{"good.tar": other}},
		{name: "another of that name", sums: sums, files: map[string][]byte{"good.tar": other}, want: refused},
		{name: "under another name", sums: sums, files: map[string][]byte{"a.tar": other}, want: refused},
		{name: "listed from the folder above", sums: digest + " *dist/good.tar\n", files: map[string][]byte{"good.tar": good}},
		{name: "listed by --tag", sums: "SHA256 (./good.tar) = " + strings.ToUpper(digest) + "\n", files: map[string][]byte{"good.tar": good}},
		{name: "beside the listed one", sums: sums, files: map[string][]byte{"good.tar": good, "a.tar": other}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.sums != "" {
				tt.files[sumsFile] = []byte(tt.sums)
			}
			for name, data := range tt.files {
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := openFolder(t, dir).Root(t.Context(), "docker.io/calico/ours:v1")
			if tt.want != "" {
				wantErr(t, err, tt.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	dir := t.TempDir()
	unpacked(t, filepath.Join(dir, "ours"), wanted)
	list := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, sumsFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list(sums)
	_, err := openFolder(t, dir).Root(t.Context(), wanted)
	wantErr(t, err, "read "+filepath.Join(dir, "ours")+": SHA256SUMS in this folder lists archives, and this is none")
	list(digest + "  ours/index.json\n")
	if _, err := openFolder(t, dir).Root(t.Context(), wanted); err != nil {
		t.Errorf("a list of unpacked files: %v", err)
	}
	list("<html>\n")
	_, err = OpenFolder(dir)
	wantErr(t, err, "read "+filepath.Join(dir, sumsFile)+": it has no SHA-256 digest")
}

// A file that cannot be read takes nothing from the others, and may be the one that has an image that is missing.
func TestOpenFolder_Unreadable(t *testing.T) {
	dir := t.TempDir()
	good := save(t, hub{host: serve(t, nil)}, []string{"amd64"}, "calico/ours:v1")
	data := read(t, good)
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	first := data[:1024] // the header and the one block of oci-layout
	for name, data := range map[string][]byte{
		"good.tar": data, "zipped.tar": zipped.Bytes(), "short.tar": data[:1500], "twice.tar": append(bytes.Clone(first), data...),
		"other.tar": make([]byte, 1024), // of no image
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := openFolder(t, dir)
	if err := Save(t.Context(), io.Discard, f, []string{"calico/ours:v1"}, []string{"amd64"}); err != nil {
		t.Error(err)
	}
	_, err := f.Root(t.Context(), wanted)
	wantErr(t, err, "read "+filepath.Join(dir, "zipped.tar")+": read the tar: ", "read "+filepath.Join(dir, "short.tar")+": read the tar: ",
		"read "+filepath.Join(dir, "twice.tar")+`: file "oci-layout" is in it twice`)
	if errors.Is(err, ErrMissing) || strings.Contains(fmt.Sprint(err), "other.tar") {
		t.Errorf("got %v", err)
	}
	if _, err := openFolder(t, t.TempDir()).Root(t.Context(), wanted); !errors.Is(err, ErrMissing) {
		t.Errorf("got %v of an empty folder", err)
	}
}
