package images

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// sumsFile lists the files of a release with their digests. What its signature says holds for images if they are those in it.
const sumsFile = "SHA256SUMS"

// sums is such a list, in any of the forms that sha256sum writes. What a digest is of is known by the digest, whatever the file is called.
type sums struct {
	digests map[string]bool
	// archives says that it lists archives, as that of a release does.
	archives bool
}

// readSums returns nil if the folder has no list.
func readSums(dir string) (*sums, error) {
	path := filepath.Join(dir, sumsFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &sums{digests: map[string]bool{}}
	for word := range strings.FieldsSeq(string(data)) {
		if sum, err := hex.DecodeString(word); err == nil && len(sum) == sha256.Size {
			s.digests[hex.EncodeToString(sum)] = true
		}
		s.archives = s.archives || strings.HasSuffix(strings.TrimSuffix(word, ")"), ".tar")
	}
	if len(s.digests) == 0 {
		return nil, fmt.Errorf("read %s: it has no SHA-256 digest", path)
	}
	return s, nil
}

// check refuses a layout that the list has not: one that is unpacked never is in a list of archives.
func (s *sums) check(l layout) error {
	if s == nil {
		return nil
	}
	p, isFile := l.(packed)
	if !isFile && !s.archives {
		return nil
	}
	const away = "to use it, move it to a folder of its own"
	if !isFile {
		return fmt.Errorf("%s in this folder lists archives, and this is none: %s", sumsFile, away)
	}
	got, err := FileDigest(p.file)
	if err != nil {
		return err
	}
	if !s.digests[got] {
		return fmt.Errorf("%s in this folder does not list its digest %s: %s", sumsFile, got, away)
	}
	return nil
}
