package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/blakesmith/ar"
	"github.com/goreleaser/nfpm/v2/deb"
)

// aptRepository makes the folder of a release a flat repository of apt: `deb [signed-by=...] URL ./`.
func aptRepository(r *release) []artefact {
	list := []artefact{
		{"Packages", func(_ context.Context, r *release, file string) error { return r.writeAptPackages(file) }},
		{"Packages.gz", func(_ context.Context, r *release, file string) error {
			packages, err := os.ReadFile(filepath.Join(r.dir, "Packages"))
			if err != nil {
				return err
			}
			data, err := gzipped(packages)
			if err != nil {
				return err
			}
			return os.WriteFile(file, data, 0o644)
		}},
		{"Release", func(_ context.Context, r *release, file string) error { return r.writeAptRelease(file) }},
	}
	if r.openPGP == nil {
		return list
	}
	return append(list,
		artefact{"InRelease", func(_ context.Context, r *release, file string) error {
			return r.openPGP.clearSign(filepath.Join(r.dir, "Release"), file)
		}},
		artefact{"Release.gpg", func(_ context.Context, r *release, file string) error {
			return r.openPGP.detachSign(filepath.Join(r.dir, "Release"), file)
		}},
		artefact{"ccmadm-archive-keyring.asc", func(_ context.Context, r *release, file string) error {
			return r.openPGP.writePublicKey(file)
		}})
}

func (r *release) writeAptPackages(file string) error {
	var text bytes.Buffer
	for _, on := range nodes() {
		name := r.packageName(deb.Default, on)
		path := filepath.Join(r.dir, name)
		control, err := debControl(path)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		sum, err := digest(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s\nFilename: ./%s\nSize: %d\nSHA256: %s\n\n", strings.TrimSpace(control), name, info.Size(), sum)
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

func (r *release) writeAptRelease(file string) error {
	var text, md5sums, sha256sums bytes.Buffer
	for _, name := range []string{"Packages", "Packages.gz"} {
		data, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&md5sums, " %x %d %s\n", md5.Sum(data), len(data), name)
		fmt.Fprintf(&sha256sums, " %x %d %s\n", sha256.Sum256(data), len(data), name)
	}
	date := r.date.Format("Mon, 02 Jan 2006 15:04:05 UTC")
	fmt.Fprintf(&text, "Origin: ccmadm\nLabel: ccmadm\nSuite: stable\nVersion: %s\nDate: %s\n", debianVersion(r.version), date)
	fmt.Fprintf(&text, "Architectures: amd64 arm64\nDescription: ccmadm %s\n", r.version)
	fmt.Fprintf(&text, "MD5Sum:\n%sSHA256:\n%s", md5sums.String(), sha256sums.String())
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// debControl returns the control file of a package.
func debControl(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	for members := ar.NewReader(f); ; {
		member, err := members.Next()
		if err != nil {
			return "", fmt.Errorf("find control.tar.gz: %w", err)
		}
		if strings.TrimRight(member.Name, "/") != "control.tar.gz" {
			continue
		}
		zr, err := gzip.NewReader(members)
		if err != nil {
			return "", err
		}
		return tarFile(zr, "control")
	}
}

// tarFile returns one file of an archive.
func tarFile(r io.Reader, name string) (string, error) {
	for tr := tar.NewReader(r); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return "", fmt.Errorf("the archive has no %s", name)
		}
		if err != nil {
			return "", err
		}
		if filepath.Clean(header.Name) == name {
			data, err := io.ReadAll(tr)
			return string(data), err
		}
	}
}
