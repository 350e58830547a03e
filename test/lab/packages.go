//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
)

func newPackages(p *places) *cobra.Command {
	return newFolder(p, "packages NAME...", cobra.MinimumNArgs(1),
		"Download Debian packages with what machines lack for them, and print the folder of the archives",
		func(ctx context.Context, b builder, names []string) (string, error) { return b.packages(ctx, names) })
}

// packages has apt-get of this machine look at the root that all machines share, and change nothing there.
func (b builder) packages(ctx context.Context, names []string) (string, error) {
	root, err := b.debian(ctx, debianMirror)
	if err != nil {
		return "", err
	}
	return b.cached(ctx, "packages", append([]string{root}, names...), func(dir string) error {
		state, err := os.MkdirTemp("", "lab-packages-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(state) //nolint:errcheck // it is temporary
		for _, folder := range []string{filepath.Join(state, "lists/partial"), filepath.Join(dir, "partial")} {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
		}
		options := []string{
			"-qy", "--no-install-recommends", "--download-only",
			"-o", "APT::Sandbox::User=root", "-o", "Dir::Etc=" + root + "/etc/apt",
			"-o", "Dir::State::lists=" + state + "/lists", "-o", "Dir::State::status=" + root + "/var/lib/dpkg/status",
			"-o", "Dir::Cache=" + state, "-o", "Dir::Cache::archives=" + dir,
		}
		for _, do := range [][]string{{"update"}, append([]string{"install"}, names...)} {
			out, err := exec.CommandContext(ctx, "apt-get", append(options, do...)...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("apt-get %s: %w: %s", do[0], err, lastLines(string(out), 10))
			}
		}
		return errors.Join(os.Remove(filepath.Join(dir, "lock")), os.Remove(filepath.Join(dir, "partial")))
	})
}
