//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ccmadm/ccmadm/api/minors"
)

const debianMirror = "http://deb.debian.org/debian"

type buildFlags struct {
	kubernetes string
	mirror     string
	install    bool
}

func (f *buildFlags) declare(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mirror, "mirror", debianMirror, "Debian mirror")
	cmd.Flags().BoolVar(&f.install, "install", false, "install missing Debian packages on the host, and raise kernel limits that are too low until the last lab is down")
}

func newBuild(p *places) *cobra.Command {
	var flags buildFlags
	var versions, vendors []string
	var programs bool
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build what up needs, and keep it in the cache",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if programs {
				return buildPrograms(cmd.Context(), cmd.OutOrStdout(), p, versions)
			}
			return buildAll(cmd.Context(), cmd.OutOrStdout(), p, flags, versions, vendors)
		},
	}
	flags.declare(cmd)
	cmd.Flags().StringSliceVar(&versions, "kubernetes", []string{minors.Newest()}, "minor versions of Kubernetes")
	cmd.Flags().BoolVar(&programs, "programs", false, "only Kubernetes and etcd, for tests without machines; takes no root")
	cmd.Flags().StringSliceVar(&vendors, "ccm", nil, "vendors' cloud-controller-managers, see the command ccm")
	return cmd
}

// builder makes things once and keeps them in the cache.
type builder struct {
	cache     string
	source    string // the folder test/lab
	goVersion string
	out       io.Writer
}

// build makes all that machines of one Kubernetes version share.
func build(ctx context.Context, out io.Writer, p *places, flags buildFlags) (settings, error) {
	s := settings{Kubernetes: flags.kubernetes}
	if err := checkHost(ctx, out, p, flags.install); err != nil {
		return s, err
	}
	b, err := newBuilder(ctx, out, p)
	if err != nil {
		return s, err
	}
	var debian string
	var t toolbox
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if debian, err = b.debian(groupCtx, flags.mirror); err != nil {
			return fmt.Errorf("build Debian root: %w", err)
		}
		return nil
	})
	group.Go(func() (err error) {
		if t, err = b.toolbox(groupCtx, flags.kubernetes); err != nil {
			return fmt.Errorf("build binaries: %w", err)
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return s, err
	}
	layer, err := b.layer(ctx, t)
	if err != nil {
		return s, fmt.Errorf("build layer: %w", err)
	}
	s.Layers = []string{layer, debian}
	if s.Seed, err = b.seed(ctx, t, debian); err != nil {
		return s, fmt.Errorf("build images: %w", err)
	}
	return s, nil
}

// buildAll builds for several minors, and what vendors publish. One program after the other is compiled, each with all
// cores: two compilers side by side would both compile what they share. Only the network is used beside them.
func buildAll(ctx context.Context, out io.Writer, p *places, flags buildFlags, minors, vendors []string) error {
	b, err := newBuilder(ctx, out, p)
	if err != nil {
		return err
	}
	parts, err := b.parts(minors, vendors)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	ahead, enough := context.WithCancel(ctx)
	group.Go(func() error { b.fetch(ahead, parts); return nil })
	group.Go(func() error {
		defer enough()
		for _, minor := range minors {
			flags.kubernetes = minor
			if _, err := build(ctx, out, p, flags); err != nil {
				return err
			}
		}
		for _, vendor := range vendors {
			if _, err := b.ccm(ctx, ccms()[vendor]); err != nil {
				return fmt.Errorf("build cloud-controller-manager %s: %w", vendor, err)
			}
		}
		return nil
	})
	return group.Wait()
}

// buildPrograms builds what tests run on loopback.
func buildPrograms(ctx context.Context, out io.Writer, p *places, minors []string) error {
	b, err := newBuilder(ctx, out, p)
	if err != nil {
		return err
	}
	for _, minor := range minors {
		kubernetes, _, err := b.kubernetesPart(minor)
		if err != nil {
			return err
		}
		if _, err := b.make(ctx, kubernetes); err != nil {
			return fmt.Errorf("build binaries: %w", err)
		}
	}
	return nil
}

func newBuilder(ctx context.Context, out io.Writer, p *places) (builder, error) {
	cache, err := filepath.Abs(p.cache)
	if err != nil {
		return builder{}, err
	}
	source, err := findSource(p.source)
	if err != nil {
		return builder{}, err
	}
	version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return builder{}, fmt.Errorf("go env: %w", err)
	}
	return builder{cache: cache, source: source, goVersion: strings.TrimSpace(string(version)), out: out}, nil
}

// findSource returns this repository's test/lab, looking upwards from the working directory.
func findSource(given string) (string, error) {
	if given != "" {
		return filepath.Abs(filepath.Join(given, "test/lab"))
	}
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test/lab/containerd/go.mod")); err == nil {
			return filepath.Join(dir, "test/lab"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find test/lab above %s: go into the repository or use --source", start)
		}
	}
}

func (b builder) place(kind string, inputs []string) string {
	return filepath.Join(b.cache, kind+"-"+digest(inputs))
}

// cached returns the folder CACHE/KIND-HASH(inputs) and has it filled first when it is not there. Two processes that
// want the same wait for each other; a folder that has its name is complete.
func (b builder) cached(ctx context.Context, kind string, inputs []string, fill func(dir string) error) (string, error) {
	dir := b.place(kind, inputs)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFile(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fmt.Fprintf(b.out, "[build] %s\n", kind)
	started := time.Now()
	unfinished := dir + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		return "", err
	}
	if err := fill(unfinished); err != nil {
		return "", fmt.Errorf("%s: %w", kind, err)
	}
	fmt.Fprintf(b.out, "[build] %s took %.0fs\n", kind, time.Since(started).Seconds())
	return dir, os.Rename(unfinished, dir)
}

// goBuild compiles what the arguments name, statically and reproducibly, in one call so that all cores have work.
func (b builder) goBuild(ctx context.Context, dir, output, ldflags string, packages ...string) error {
	args := slices.Concat([]string{"build"}, compileFlags(ldflags), []string{"-o", output + "/"}, packages)
	cmd := b.goCommand(ctx, dir, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w: %s", dir, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// compileFlags are those that the Makefile has for ccmadm: what both contain is compiled once, and in two thirds of the time. What a
// debugger reads is not made, for it would be stripped.
func compileFlags(ldflags string) []string {
	flags := []string{"-trimpath", "-gcflags=all=-l -dwarf=false"}
	for _, inlined := range inlinedPackages() {
		flags = append(flags, "-gcflags="+inlined+"/...=-dwarf=false")
	}
	return append(flags, "-ldflags", strings.TrimSpace("-s -w "+ldflags))
}

// inlinedPackages is INLINED of the Makefile, which says why.
func inlinedPackages() []string {
	return []string{"runtime", "internal", "crypto", "sync", "go.opentelemetry.io/otel"}
}

// goCommand is the go command in that folder, without cgo and for machines of this kind.
func (b builder) goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	return cmd
}
