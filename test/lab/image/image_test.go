package image

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	spec := Spec{
		Name:       "example.com/ccm:v1",
		Files:      map[string]string{"/usr/bin/ccm": program(t, dir, "ccm"), "/README": program(t, dir, "readme")},
		Links:      map[string]string{"/usr/bin/sh": "ccm"},
		Entrypoint: []string{"/usr/bin/ccm"},
		User:       "65532",
		Env:        []string{"A=b"},
	}
	archive := filepath.Join(dir, "ccm.tar")
	if err := Write(archive, spec); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{Entrypoint: []string{"/usr/bin/ccm"}, User: "65532", Env: []string{"A=b"}}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"README", "tmp", "usr", "usr/bin", "usr/bin/ccm", "usr/bin/sh"}, sorted(t, img)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestWrite_SameInputSameBytes(t *testing.T) {
	dir := t.TempDir()
	var archives [2]string
	for i := range archives {
		source := program(t, t.TempDir(), "ccm")
		if err := os.Chtimes(source, time.Time{}, time.Unix(int64(i)*1e9, 0)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "image.tar")
		if err := Write(file, Spec{Name: "example.com/ccm:v1", Files: map[string]string{"/ccm": source}}); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = string(content)
	}
	if archives[0] != archives[1] {
		t.Error("two archives of one program differ")
	}
}

// TestWrite_Setuid: a program that gains rights by its mode gains them in the image, too.
func TestWrite_Setuid(t *testing.T) {
	dir := t.TempDir()
	nnp := program(t, dir, "nnp")
	if err := os.Chmod(nnp, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "image.tar")
	files := map[string]string{"/nnp": nnp, "/plain": program(t, dir, "plain")}
	if err := Write(archive, Spec{Name: "example.com/nnp:v1", Files: files}); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(img)
	defer func() { _ = content.Close() }()
	got := map[string]int64{}
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = header.Mode
	}
	if diff := cmp.Diff(map[string]int64{"tmp": 0o755, "nnp": 0o4755, "plain": 0o755}, got); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
}

func TestWrite_Refuses(t *testing.T) {
	dir := t.TempDir()
	file := program(t, dir, "ccm")
	tests := []struct {
		name    string
		spec    Spec
		wantErr string
	}{
		{"a name without a tag", Spec{Name: "example.com/ccm"}, `image name "example.com/ccm"`},
		{"a relative path", Spec{Name: "example.com/ccm:v1", Files: map[string]string{"ccm": file}}, `"ccm": want a clean absolute path`},
		{"a path that climbs", Spec{Name: "example.com/ccm:v1", Files: map[string]string{"/../ccm": file}}, "want a clean absolute path"},
		{"a missing file", Spec{Name: "example.com/ccm:v1", Files: map[string]string{"/ccm": dir + "/none"}}, "no such file"},
		{"a folder", Spec{Name: "example.com/ccm:v1", Files: map[string]string{"/ccm": dir}}, "invalid argument"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			archive := filepath.Join(t.TempDir(), "image.tar")
			err := Write(archive, tt.spec)
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
			left, err := os.ReadDir(filepath.Dir(archive))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind %v, error %v", left, err)
			}
		})
	}
}

func program(t *testing.T, dir, name string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte("content of "+name), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

func sorted(t *testing.T, img v1.Image) []string {
	t.Helper()
	content := mutate.Extract(img)
	defer func() { _ = content.Close() }()
	var names []string
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if err == io.EOF {
			slices.Sort(names)
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.ModTime.Unix() != 0 || header.Uid != 0 {
			t.Errorf("%s: time %s, owner %d", header.Name, header.ModTime, header.Uid)
		}
		names = append(names, header.Name)
	}
}
