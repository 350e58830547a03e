//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/minors"
)

func newMinor(p *places) *cobra.Command {
	return &cobra.Command{
		Use:   "minor MINOR RELEASE",
		Short: "Write the modules kubernetes-MINOR and upstream-MINOR for a release, as v1.38.0, after the newest ones there are",
		Long: `Takes the versions of the libraries from Kubernetes' own go.mod, and etcd's from what kubeadm of that release
deploys. A second run writes them again.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := newBuilder(cmd.Context(), cmd.OutOrStdout(), p)
			if err != nil {
				return err
			}
			return b.addMinor(cmd.Context(), args[0], args[1])
		},
	}
}

func (b builder) addMinor(ctx context.Context, minor, release string) error {
	kubernetes, err := b.sources(ctx, "k8s.io/kubernetes", release)
	if err != nil {
		return err
	}
	etcd, err := etcdOf(kubernetes)
	if err != nil {
		return err
	}
	libraries, err := stagedIn(kubernetes)
	if err != nil {
		return err
	}
	staged := "v0." + strings.TrimPrefix(release, "v1.")
	edits := []string{
		"-require=k8s.io/kubernetes@" + release, "-require=go.etcd.io/etcd/server/v3@" + etcd, "-require=go.etcd.io/etcd/etcdctl/v3@" + etcd,
	}
	for _, library := range libraries {
		edits = append(edits, "-replace="+library+"="+library+"@"+staged)
	}
	for _, kind := range []string{"kubernetes-", "upstream-"} {
		if err := b.newModule(ctx, kind, minor, edits); err != nil {
			return fmt.Errorf("write module %s%s: %w", kind, minor, err)
		}
	}
	fmt.Fprintf(b.out, "[minor] %s: Kubernetes %s, libraries %s, etcd %s\n", minor, release, staged, etcd)
	return nil
}

// newModule copies the module of the newest other minor that has one, and gives it the release.
func (b builder) newModule(ctx context.Context, kind, minor string, edits []string) error {
	dir, from := filepath.Join(b.source, kind+minor), ""
	for _, known := range minors.Known() {
		if _, err := os.Stat(filepath.Join(b.source, kind+known, "go.mod")); err == nil && known != minor {
			from = known
		}
	}
	if from == "" {
		return fmt.Errorf("find %s* to begin with in %s", kind, b.source)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(b.source, kind+from, name))
		if err != nil {
			return err
		}
		data = bytes.ReplaceAll(data, []byte("kubernetes-"+from), []byte("kubernetes-"+minor)) // a comment
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	if err := b.run(ctx, dir, append([]string{"mod", "edit", "-module=github.com/ccmadm/ccmadm/test/lab/" + kind + minor}, edits...)...); err != nil {
		return err
	}
	if kind == "kubernetes-" {
		return b.run(ctx, dir, "mod", "tidy") // which keeps what the tool lines need
	}
	return b.run(ctx, dir, slices.Concat([]string{"get", "-t"}, upstreamSuites(), upstreamTools())...)
}

func (b builder) run(ctx context.Context, dir string, args ...string) error {
	if out, err := b.goCommand(ctx, dir, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", args[0], err, lastLines(string(out), 10))
	}
	return nil
}

// sources returns the folder of a module in the cache of modules.
func (b builder) sources(ctx context.Context, module, version string) (string, error) {
	found, err := b.downloadModule(ctx, module, version)
	return found.Dir, err
}

// downloaded is what Go has of a module: one that wants a newer Go is there as Zip, and not as Dir.
type downloaded struct{ Dir, Zip, Error string }

func (b builder) downloadModule(ctx context.Context, module, version string) (downloaded, error) {
	cmd := b.goCommand(ctx, b.source, "mod", "download", "-json", module+"@"+version)
	cmd.Stderr = io.Discard // the error is in the JSON
	out, err := cmd.Output()
	var found downloaded
	if json.Unmarshal(out, &found) == nil && found.Error != "" {
		err = errors.New(found.Error)
	}
	if err != nil {
		return found, fmt.Errorf("download %s %s: %w", module, version, err)
	}
	return found, nil
}

// etcdOf is the version of etcd that kubeadm of a release deploys.
func etcdOf(kubernetes string) (string, error) {
	file := filepath.Join(kubernetes, "cmd/kubeadm/app/constants/constants.go")
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`DefaultEtcdVersion = "([0-9.]+)-`).FindSubmatch(data)
	if found == nil {
		return "", fmt.Errorf("find DefaultEtcdVersion in %s", file)
	}
	return "v" + string(found[1]), nil
}

// stagedIn are the libraries that Kubernetes publishes from its own tree.
func stagedIn(kubernetes string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(kubernetes, "go.mod"))
	if err != nil {
		return nil, err
	}
	var list []string
	for _, found := range regexp.MustCompile(`(?m)^\s*(?:replace )?(k8s\.io/\S+) => \./staging/`).FindAllSubmatch(data, -1) {
		list = append(list, string(found[1]))
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("find the libraries in Kubernetes' go.mod")
	}
	return list, nil
}
