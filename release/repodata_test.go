package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const repodataArchive = "ccmadm_v0.1.0_repodata.tar.gz"

// TestRepodata_Archive: the archive has the folder's files, of root and with the commit's time.
func TestRepodata_Archive(t *testing.T) {
	var names []string
	tr := tar.NewReader(strings.NewReader(unpacked(t, filepath.Join(made.dir, repodataArchive))))
	for {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		if !bytes.Equal(data, read(t, filepath.Join(made.dir, filepath.FromSlash(header.Name)))) {
			t.Errorf("%s is another file in the folder", header.Name)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Mode != 0o644 || header.ModTime.Year() != 2025 {
			t.Errorf("%s has owner %d:%d, mode %o and time %s", header.Name, header.Uid, header.Gid, header.Mode, header.ModTime)
		}
	}
	want := []string{
		"repodata/filelists.xml.gz", "repodata/other.xml.gz", "repodata/primary.xml.gz", "repodata/repomd.xml", "repodata/repomd.xml.asc",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the archive has %q, want %q", names, want)
	}
}

// published is a folder with the files that the workflow uploads: those at its top.
func published(t *testing.T) string {
	t.Helper()
	dir := copied(t)
	if err := os.RemoveAll(filepath.Join(dir, repodataFolder)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestVerify_Published: what users download has no folders, and is complete.
func TestVerify_Published(t *testing.T) {
	if _, err := verify(published(t), made.publicKey()); err != nil {
		t.Error(err)
	}
	listed, err := parseSums(string(read(t, filepath.Join(made.dir, sumsName))))
	if err != nil {
		t.Fatal(err)
	}
	for name := range listed {
		if strings.Contains(name, "/") {
			t.Errorf("%s is listed, and cannot be uploaded by this name", name)
		}
	}
}

// TestVerify_Repodata: a folder repodata that is there is the one of the archive.
func TestVerify_Repodata(t *testing.T) {
	inside := filepath.Join(repodataFolder, "repomd.xml")
	for _, tt := range []struct {
		name, wantErr string
		change        func(dir string) error
	}{
		{"a file is missing", "repodata/repomd.xml: not in the folder", func(dir string) error { return os.Remove(filepath.Join(dir, inside)) }},
		{"a file is not in the archive", "repodata/extra: not in " + repodataArchive, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, repodataFolder, "extra"), nil, 0o644)
		}},
		{"a file was changed", "repodata/repomd.xml: not as in " + repodataArchive, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, inside), []byte("x"), 0o644)
		}},
		{"a folder below it", "repodata/deeper/extra: not in " + repodataArchive, func(dir string) error {
			deeper := filepath.Join(dir, repodataFolder, "deeper")
			return errors.Join(os.Mkdir(deeper, 0o755), os.WriteFile(filepath.Join(deeper, "extra"), nil, 0o644))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := copied(t)
			if err := tt.change(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := verify(dir, made.publicKey()); err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
}
