//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// toolbox is every program of one Kubernetes minor: folders of binaries, and the images kubeadm wants.
type toolbox struct {
	kubernetes string // version, with its v
	binaries   string // kubeadm, kubelet, kube-*, kubectl, etcdctl and etcd, which is called server
	containerd string
	coredns    string
	own        string   // apiproxy, echo and pause
	images     []string // references of `kubeadm config images list`
}

func (b builder) toolbox(ctx context.Context, minor string) (toolbox, error) {
	var t toolbox
	module := "kubernetes-" + minor
	version, err := b.required(module, "k8s.io/kubernetes")
	if err != nil {
		return t, fmt.Errorf("kubernetes %s: %w", minor, err)
	}
	t.kubernetes = version
	// Without a version of its own, kubeadm takes itself for v0.0.0 and refuses every cluster.
	numbers := strings.Split(strings.TrimPrefix(version, "v"), ".")
	const base = "-X k8s.io/component-base/version."
	ldflags := strings.Join([]string{
		base + "gitVersion=" + version, base + "gitMajor=" + numbers[0], base + "gitMinor=" + numbers[1],
		"-X k8s.io/client-go/pkg/version.gitVersion=" + version,
	}, " ")
	if t.binaries, err = b.tools(ctx, module, ldflags); err != nil {
		return t, err
	}
	if t.containerd, err = b.containerd(ctx); err != nil {
		return t, err
	}
	if t.images, err = listImages(ctx, filepath.Join(t.binaries, "kubeadm"), version); err != nil {
		return t, err
	}
	if t.coredns, err = b.wantedDNS(ctx, t.images); err != nil {
		return t, err
	}
	if err := b.checkEtcd(module, t.images); err != nil {
		return t, err
	}
	t.own, err = b.own(ctx)
	return t, err
}

// tools builds the tool directives of a nested module.
func (b builder) tools(ctx context.Context, module, ldflags string) (string, error) {
	dir := filepath.Join(b.source, module)
	inputs := []string{ldflags, b.goVersion, runtime.GOARCH}
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		inputs = append(inputs, string(content))
	}
	return b.cached(ctx, module, inputs, func(output string) error {
		return b.goBuild(ctx, dir, output, ldflags, "tool")
	})
}

// containerd says its version on every node.
func (b builder) containerd(ctx context.Context) (string, error) {
	const module = "github.com/containerd/containerd/v2"
	version, err := b.required("containerd", module)
	if err != nil {
		return "", err
	}
	return b.tools(ctx, "containerd", "-X "+module+"/version.Version="+version)
}

// own builds the programs of this folder that run on machines.
func (b builder) own(ctx context.Context) (string, error) {
	inputs := []string{b.goVersion, runtime.GOARCH}
	for _, name := range []string{"apiproxy", "echo", "pause"} {
		content, err := os.ReadFile(filepath.Join(b.source, name, "main.go"))
		if err != nil {
			return "", err
		}
		inputs = append(inputs, string(content))
	}
	return b.cached(ctx, "own", inputs, func(output string) error {
		return b.goBuild(ctx, b.source, output, "", "./apiproxy", "./echo", "./pause")
	})
}

// listImages asks kubeadm, which alone knows what it will want.
func listImages(ctx context.Context, kubeadm, version string) ([]string, error) {
	out, err := exec.CommandContext(ctx, kubeadm, "config", "images", "list", "--kubernetes-version", version).Output()
	if err != nil {
		return nil, fmt.Errorf("list images of kubeadm: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// wantedDNS builds the CoreDNS that kubeadm names, from the nested module of its minor version.
func (b builder) wantedDNS(ctx context.Context, images []string) (string, error) {
	wanted := tagOf(images, "coredns")
	module := "coredns-" + strings.TrimPrefix(wanted[:strings.LastIndexByte(wanted, '.')], "v")
	version, err := b.required(module, "github.com/coredns/coredns")
	if err != nil {
		return "", fmt.Errorf("coredns %s, which kubeadm wants: %w", wanted, err)
	}
	if version != wanted {
		return "", fmt.Errorf("coredns: kubeadm wants %s, %s has %s", wanted, module, version)
	}
	return b.tools(ctx, module, "")
}

func (b builder) checkEtcd(module string, images []string) error {
	version, err := b.required(module, "go.etcd.io/etcd/server/v3")
	if err != nil {
		return err
	}
	if wanted := tagOf(images, "etcd"); !strings.HasPrefix(wanted, strings.TrimPrefix(version, "v")+"-") {
		return fmt.Errorf("etcd: kubeadm wants %s, %s has %s", wanted, module, version)
	}
	return nil
}

// tagOf returns the tag of the image whose last path element is name, or "." when there is none.
func tagOf(images []string, name string) string {
	for _, image := range images {
		if repository, tag, ok := strings.Cut(image, ":"); ok && filepath.Base(repository) == name {
			return tag
		}
	}
	return "."
}

// required reads from a go.mod which version of a module it pins.
func (b builder) required(module, path string) (string, error) {
	content, err := os.ReadFile(filepath.Join(b.source, module, "go.mod"))
	if err != nil {
		return "", err
	}
	return requiredVersion(string(content), path)
}

func requiredVersion(gomod, path string) (string, error) {
	found := regexp.MustCompile(`(?m)^(?:require )?\s*` + regexp.QuoteMeta(path) + ` (v\S+)`).FindStringSubmatch(gomod)
	if found == nil {
		return "", fmt.Errorf("go.mod does not require %s", path)
	}
	return found[1], nil
}

// digest is short, as it becomes part of overlay mount options, which have a page at most.
func digest(inputs []string) string {
	h := sha256.New()
	for _, s := range inputs {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6])
}
