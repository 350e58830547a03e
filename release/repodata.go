package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// repodataFolder is what dnf reads of a mirror. A GitHub release has no folders: its files are published, and listed in SHA256SUMS,
// as one archive.
const repodataFolder = "repodata"

func (r *release) repodataName() string { return "ccmadm_" + r.version + "_repodata.tar.gz" }

func (r *release) writeRepodata(file string) error {
	entries, err := entriesBelow(filepath.Join(r.dir, repodataFolder))
	if err != nil {
		return err
	}
	for i := range entries {
		entries[i].name = repodataFolder + "/" + entries[i].name
	}
	return r.pack(file, entries)
}

// publishedFiles are all files of a folder but those that the archive has.
func publishedFiles(dir string) ([]string, error) {
	names, err := filesBelow(dir)
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, repodataFolder+"/") }), err
}

// verifyRepodata compares the folder, where it is there, with the archive, which is listed.
func verifyRepodata(dir string) error {
	entries, err := entriesBelow(filepath.Join(dir, repodataFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*_repodata.tar.gz"))
	if err != nil || len(archives) != 1 {
		return errors.Join(err, fmt.Errorf("find *_repodata.tar.gz: want 1, found %d", len(archives)))
	}
	archive := filepath.Base(archives[0])
	packed, err := digestsIn(archives[0])
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	var found []error
	for _, e := range entries {
		name := repodataFolder + "/" + e.name
		got, err := digest(e.file)
		switch want := packed[name]; {
		case err != nil:
			found = append(found, err)
		case want == "":
			found = append(found, fmt.Errorf("%s: not in %s", name, archive))
		case got != want:
			found = append(found, fmt.Errorf("%s: not as in %s", name, archive))
		}
		delete(packed, name)
	}
	for name := range packed {
		found = append(found, fmt.Errorf("%s: not in the folder, but in %s", name, archive))
	}
	return errors.Join(found...)
}

// digestsIn are the digests of the files in an archive.
func digestsIn(file string) (map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for tr := tar.NewReader(zr); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return sums, nil
		}
		if err != nil {
			return nil, err
		}
		hash := sha256.New()
		if _, err := io.Copy(hash, tr); err != nil {
			return nil, err
		}
		sums[header.Name] = hex.EncodeToString(hash.Sum(nil))
	}
}
