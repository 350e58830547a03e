package e2e

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// installCCM puts a vendor's program on the first control plane. It returns the folder that it was built in.
func (l *lab) installCCM(t *testing.T, name string) string {
	t.Helper()
	l.sh(t, cloudNode, "systemctl stop cloud") // that of the vendor before
	built := l.loadCCM(t, name)
	program := filepath.Join(t.TempDir(), "ccm")
	if err := extract(filepath.Join(built, "image.tar"), program); err != nil {
		t.Fatal(err)
	}
	l.run(t, "cp", "--name", l.name, program, "cp1:/usr/local/bin/ccm")
	return built
}

// extract writes the program of an image of the lab's, which has one layer and in it one file.
func extract(archive, to string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for image := tar.NewReader(file); ; {
		header, err := image.Next()
		if err != nil {
			return fmt.Errorf("read %s: %w", archive, err)
		}
		if !strings.HasSuffix(header.Name, ".tar.gz") {
			continue
		}
		unzipped, err := gzip.NewReader(image)
		if err != nil {
			return err
		}
		for layer := tar.NewReader(unzipped); ; {
			header, err := layer.Next()
			if err != nil {
				return fmt.Errorf("read the layer of %s: %w", archive, err)
			}
			if header.Typeflag == tar.TypeReg && strings.HasPrefix(header.Name, "bin/") {
				return writeProgram(to, layer)
			}
		}
	}
}

func writeProgram(to string, from io.Reader) error {
	file, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	return errors.Join(err, file.Close())
}
