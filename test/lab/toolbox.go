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
	kubernetes, version, err := b.kubernetesPart(minor)
	if err != nil {
		return t, err
	}
	containerd, err := b.containerdPart()
	if err != nil {
		return t, err
	}
	t.kubernetes = version
	// The smallest first: the modules of the others arrive meanwhile.
	if t.containerd, err = b.make(ctx, containerd); err != nil {
		return t, err
	}
	if t.coredns, err = b.make(ctx, dnsPart()); err != nil {
		return t, err
	}
	if t.binaries, err = b.make(ctx, kubernetes); err != nil {
		return t, err
	}
	if t.images, err = listImages(ctx, filepath.Join(t.binaries, "kubeadm"), version); err != nil {
		return t, err
	}
	if err := b.checkEtcd(kubernetes.module, t.images); err != nil {
		return t, err
	}
	t.own, err = b.own(ctx)
	return t, err
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
