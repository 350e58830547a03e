package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// release is one version of one commit on its way into a folder.
type release struct {
	version, commit string
	// date is that of the commit, and of every file in every artefact.
	date time.Time
	// source is the checkout, dir the folder that is written, work what is left out of it.
	source, dir, work string
	// compile writes a program for a platform to a file; files shows where it was written to.
	compile  func(ctx context.Context, program string, on platform, file string) error
	programs map[string]string
	// goVersion and builder are what the provenance says of them.
	goVersion, builder string
	signer             *signer
	openPGP            *openPGP
	progress           io.Writer
}

// newRelease looks at the checkout in source. The version is refused if it is no semantic version, if its tag belongs to
// another commit, or if the checkout has changes: a release is built from a commit.
func newRelease(ctx context.Context, version, source string, progress io.Writer) (*release, error) {
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?$`).MatchString(version) {
		return nil, fmt.Errorf("version %q: want v1.2.3 or v1.2.3-rc.1", version)
	}
	r := &release{version: version, source: source, compile: compiler(source, version), progress: progress}
	commit, err := git(ctx, source, "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	changes, err := git(ctx, source, "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changes != "" {
		return nil, fmt.Errorf("release %s: the checkout has changes, and a release is built from a commit:\n%s", version, changes)
	}
	if tagged, err := git(ctx, source, "rev-parse", "--verify", "--quiet", "refs/tags/"+version+"^{commit}"); err == nil && tagged != commit {
		return nil, fmt.Errorf("release %s: its tag is at %s, and the checkout at %s: git checkout %s", version, tagged, commit, version)
	}
	date, err := git(ctx, source, "show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseInt(date, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read the date of commit %s: %w", commit, err)
	}
	r.commit, r.date = commit, time.Unix(seconds, 0).UTC()
	return r, nil
}

// write makes all artefacts in a folder beside output, and puts it in the place of output when all are there.
func (r *release) write(ctx context.Context, output string) error {
	if err := replaceable(output); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return err
	}
	var err error
	if r.dir, err = os.MkdirTemp(filepath.Dir(output), ".release-*"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.dir) }()
	if r.work, err = os.MkdirTemp("", "ccmadm-release-*"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.work) }()
	r.programs = map[string]string{}
	for _, a := range artefacts(r) {
		file := filepath.Join(r.dir, a.name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := a.make(ctx, r, file); err != nil {
			return fmt.Errorf("make %s: %w", a.name, err)
		}
		if err := r.show(a.name, file); err != nil {
			return err
		}
	}
	if err := r.writeSums(); err != nil {
		return err
	}
	if err := os.RemoveAll(output); err != nil {
		return err
	}
	if err := os.Rename(r.dir, output); err != nil {
		return err
	}
	return os.Chmod(output, 0o755)
}

func (r *release) show(name, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.progress, "[release] %-60s %7.1f MB\n", name, float64(info.Size())/1e6)
	return err
}

// replaceable is nil if the folder is not there, is empty, or has a release.
func replaceable(output string) error {
	files, err := os.ReadDir(output)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(files) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at output folder: %w", err)
	}
	if _, err := os.Stat(filepath.Join(output, sumsName)); err != nil {
		return fmt.Errorf("write to %s: the folder has files and is not a release; remove it, or name another with --output", output)
	}
	return nil
}

// binary returns the file of a program, compiled when it is first asked for.
func (r *release) binary(ctx context.Context, program string, on platform) (string, error) {
	file := filepath.Join(r.work, on.String(), program)
	if r.programs[file] != "" {
		return file, nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	if err := r.compile(ctx, program, on, file); err != nil {
		return "", fmt.Errorf("compile %s for %s: %w", program, on, err)
	}
	if err := checkBinary(file, on); err != nil {
		return "", fmt.Errorf("%s for %s: %w", program, on, err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if err := checkSize(program, on, info.Size()); err != nil {
		return "", fmt.Errorf("%s for %s: %w", program, on, err)
	}
	sum, err := digest(file)
	r.programs[file] = sum
	return file, err
}

// compiler has make build a program: what Go is told stands in the Makefile, for `make build` and for a release.
func compiler(source, version string) func(context.Context, string, platform, string) error {
	return func(ctx context.Context, program string, on platform, file string) error {
		absolute, err := filepath.Abs(file)
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "make", "--no-print-directory", "--directory", source, "release-binary",
			"VERSION="+version, "PROGRAM="+program, "OUT="+absolute)
		cmd.Env = append(os.Environ(), "GOOS="+on.os, "GOARCH="+on.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%w\n%s", err, strings.TrimSpace(said.String()))
		}
		return nil
	}
}

// goVersion is that of the Go that compiles: make runs this program with it.
func goVersion() string { return runtime.Version() }

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %s", args[0], cmp.Or(strings.TrimSpace(failure.String()), err.Error()))
	}
	return strings.TrimSpace(string(out)), nil
}

// digest is the SHA-256 of a file, in hexadecimal.
func digest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
