package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// packagers make the packages of Linux distributions. All hold the same files.
func packagers() []nfpm.Packager { return []nfpm.Packager{deb.Default, rpm.DefaultRPM} }

// packageInfo describes the package of ccmadm, without its files. Units are installed, not enabled; its
// one script warns at a removal.
func (r *release) packageInfo(on platform) *nfpm.Info {
	signature := nfpm.RPMSignature{}
	if r.openPGP != nil { // dnf and rpm want it of each package; apt takes that of the repository
		signature.SignFn = r.openPGP.sign
	}
	return nfpm.WithDefaults(&nfpm.Info{
		Name: "ccmadm", Version: r.version, Arch: on.arch, Platform: on.os, Section: "admin", Priority: "optional",
		Maintainer: "ccmadm maintainers <maintainers@users.noreply.github.com>", Vendor: "ccmadm", Homepage: repository,
		License: "Apache-2.0", MTime: r.date, DisableGlobbing: true,
		Description: "kubeadm for external clouds\n" +
			"ccmadm runs phases around kubeadm init and kubeadm join, so that a cluster\n" +
			"in external cloud mode is initialized at the first attempt. It deploys the\n" +
			"cloud-controller-manager and reports every failure with its cause.",
		Overridables: nfpm.Overridables{
			Suggests: []string{"kubeadm"},
			RPM:      nfpm.RPM{BuildHost: "localhost", Summary: "kubeadm for external clouds", Signature: signature},
		},
	})
}

// packageName is the name of a package's file. GitHub replaces the ~ of a candidate in the names of files, and apt would not find them.
func (r *release) packageName(kind nfpm.Packager, on platform) string {
	return strings.ReplaceAll(kind.ConventionalFileName(r.packageInfo(on)), "~", "-")
}

func (r *release) writePackage(ctx context.Context, file string, kind nfpm.Packager, on platform) error {
	info := r.packageInfo(on)
	contents, err := r.packageContents(ctx, kind, on)
	if err != nil {
		return err
	}
	info.Contents = contents
	if info.Scripts.PreRemove, err = r.stagedScript("prerm.sh"); err != nil {
		return err
	}
	return create(file, func(w io.Writer) error { return kind.Package(info, w) })
}

// stagedScript writes one of release/files to where packagers read it.
func (r *release) stagedScript(name string) (string, error) {
	text, err := expand(name, r)
	if err != nil {
		return "", err
	}
	file := filepath.Join(r.work, name)
	return file, os.WriteFile(file, text, 0o644)
}

// packageContents stages every file of the package, and returns where it goes.
func (r *release) packageContents(ctx context.Context, kind nfpm.Packager, on platform) (files.Contents, error) {
	binary, err := r.binary(ctx, "ccmadm", on)
	if err != nil {
		return nil, err
	}
	staged, err := r.sharedFiles(ctx, kind)
	if err != nil {
		return nil, err
	}
	contents := files.Contents{content(binary, "/usr/bin/ccmadm", 0o755, r)}
	for _, e := range staged {
		file := filepath.Join(r.work, "package", e.name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, e.data, 0o644); err != nil {
			return nil, fmt.Errorf("stage /%s: %w", e.name, err)
		}
		contents = append(contents, content(file, "/"+e.name, 0o644, r))
	}
	return contents, nil
}

func content(source, destination string, mode os.FileMode, r *release) *files.Content {
	return &files.Content{
		Source: source, Destination: destination, Type: files.TypeFile,
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.date},
	}
}
