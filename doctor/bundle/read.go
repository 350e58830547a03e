package bundle

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// snapshotFile is the doctor's input.
const snapshotFile = "snapshot.json"

// Snapshot returns the doctor's input from an archive that [Bundle.Write] wrote. Anything that is no gzip file is returned as it is, so that
// a snapshot alone is read, too.
func Snapshot(in io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(in)
	if magic, err := buffered.Peek(2); err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
		return buffered, nil //nolint:nilerr // its reader says what it is not
	}
	zip, err := gzip.NewReader(buffered)
	if err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	for archive := tar.NewReader(zip); ; {
		switch header, err := archive.Next(); {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("read the archive: there is no %s/%s in it", root, snapshotFile)
		case err != nil:
			return nil, fmt.Errorf("read the archive: %w", err)
		case header.Name == root+"/"+snapshotFile:
			return archive, nil
		}
	}
}
