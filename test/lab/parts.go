//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// part is what is built from one nested module.
type part struct {
	module   string   // its folder
	packages []string // of which programs are made; "tool" for its tool directives
	ldflags  string
	recipe   string // what else decides over its bytes
}

// kubernetesPart is the programs of a minor, with etcd's.
func (b builder) kubernetesPart(minor string) (p part, version string, err error) {
	p = part{module: "kubernetes-" + minor, packages: []string{"tool"}}
	if version, err = b.required(p.module, "k8s.io/kubernetes"); err != nil {
		return p, "", fmt.Errorf("kubernetes %s: %w", minor, err)
	}
	// Without a version of its own, kubeadm takes itself for v0.0.0 and refuses every cluster.
	numbers := strings.Split(strings.TrimPrefix(version, "v"), ".")
	const base = "-X k8s.io/component-base/version."
	p.ldflags = strings.Join([]string{
		base + "gitVersion=" + version, base + "gitMajor=" + numbers[0], base + "gitMinor=" + numbers[1],
		"-X k8s.io/client-go/pkg/version.gitVersion=" + version,
	}, " ")
	return p, version, nil
}

// containerdPart says its version on every node.
func (b builder) containerdPart() (part, error) {
	const module = "github.com/containerd/containerd/v2"
	version, err := b.required("containerd", module)
	return part{module: "containerd", packages: []string{"tool"}, ldflags: "-X " + module + "/version.Version=" + version}, err
}

// dnsPart is one CoreDNS for every minor: kubeadm names another release in each, and its Corefile is read by all.
func dnsPart() part { return part{module: "coredns", packages: []string{"."}} }

// parts are all that is to be built, in its order, but for the first, which nothing is built beside.
func (b builder) parts(minors, vendors []string) ([]part, error) {
	parts := []part{dnsPart()}
	for _, minor := range minors {
		p, _, err := b.kubernetesPart(minor)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	for _, vendor := range vendors {
		c, ok := ccms()[vendor]
		if !ok {
			return nil, fmt.Errorf("no cloud-controller-manager %q: want one of %s", vendor, strings.Join(ccmNames(), ", "))
		}
		version, err := b.required(c.folder, c.module)
		if err != nil {
			return nil, err
		}
		parts = append(parts, c.part(version))
	}
	return parts, nil
}

// make builds a part, if the cache has none.
func (b builder) make(ctx context.Context, p part) (string, error) {
	inputs, err := b.inputs(p)
	if err != nil {
		return "", err
	}
	return b.cached(ctx, p.module, inputs, func(output string) error {
		return b.goBuild(ctx, filepath.Join(b.source, p.module), output, p.ldflags, p.packages...)
	})
}

// inputs are what decides over the bytes of a part: every file of its folder, ours and those that pin the others.
func (b builder) inputs(p part) ([]string, error) {
	inputs := []string{cmp.Or(p.recipe, p.ldflags), b.goVersion, runtime.GOARCH}
	err := filepath.WalkDir(filepath.Join(b.source, p.module), func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		inputs = append(inputs, string(content))
		return err
	})
	return inputs, err
}

// fetch downloads the modules of parts that the cache lacks, one part after the other, while others are compiled, and
// then those of the project's own programs, which make builds next. What it cannot get, the build of that part will
// miss, and say so.
func (b builder) fetch(ctx context.Context, parts []part) {
	for _, p := range parts {
		inputs, err := b.inputs(p)
		if err != nil {
			continue
		}
		if _, err := os.Stat(b.place(p.module, inputs)); err == nil {
			continue
		}
		b.download(ctx, filepath.Join(b.source, p.module), p.packages...)
	}
	b.download(ctx, filepath.Join(b.source, "..", ".."), "./cmd/...")
}

func (b builder) download(ctx context.Context, folder string, packages ...string) {
	list := b.goCommand(ctx, folder, append([]string{"list", "-deps"}, packages...)...)
	if err := list.Run(); err != nil && ctx.Err() == nil {
		fmt.Fprintf(b.out, "[build] %s: download its modules ahead: %v\n", filepath.Base(folder), err)
	}
}
