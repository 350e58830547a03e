//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newUpstream(p *places) *cobra.Command {
	return newFolder(p, "upstream MINOR", cobra.ExactArgs(1),
		"Build Kubernetes' own tests of a minor, and print the folder: e2e.test, e2e_kubeadm.test, ginkgo, images, and their names",
		func(ctx context.Context, b builder, args []string) (string, error) { return b.upstream(ctx, args[0]) })
}

// upstream returns a folder with Kubernetes' tests, which the module upstream-MINOR pins to the machines' version, with
// ginkgo, which runs them, and with the images that they use, as NAME.tar. NAME.names beside it has the references by
// which the tests ask for that image, one per line. The images are made of Debian's packages and of Go modules.
func (b builder) upstream(ctx context.Context, minor string) (string, error) {
	p := part{module: "upstream-" + minor}
	inputs, err := b.inputs(p)
	if err != nil {
		return "", fmt.Errorf("tests of Kubernetes %s: %w", minor, err)
	}
	m := imageMaker{builder: b, module: filepath.Join(b.source, p.module)}
	if m.programs, err = b.cached(ctx, p.module+"-programs", inputs, func(dir string) error {
		return b.upstreamPrograms(ctx, m.module, dir)
	}); err != nil {
		return "", err
	}
	if m.debian, err = b.debian(ctx, debianMirror); err != nil {
		return "", err
	}
	if m.dns, err = b.make(ctx, dnsPart()); err != nil {
		return "", err
	}
	if m.apiserver, err = b.make(ctx, part{module: "sample-apiserver", packages: []string{"tool"}}); err != nil {
		return "", err
	}
	recipe := fmt.Sprint(testImageFormat, testPackages(), testPrograms(), standIns())
	return b.cached(ctx, p.module, []string{m.programs, m.debian, m.dns, m.apiserver, recipe}, func(dir string) error {
		for _, program := range []string{"e2e.test", "e2e_kubeadm.test", "ginkgo"} {
			if err := os.Link(filepath.Join(m.programs, program), filepath.Join(dir, program)); err != nil {
				return err
			}
		}
		names, err := testImages(ctx, filepath.Join(dir, "e2e.test"))
		if err != nil {
			return err
		}
		if err := m.write(ctx, dir, names); err != nil {
			return fmt.Errorf("images of tests: %w", err)
		}
		return nil
	})
}

// upstreamSuites are the packages of tests, and upstreamTools those of what runs them and of the programs of their images.
func upstreamSuites() []string {
	return []string{"k8s.io/kubernetes/test/e2e", "k8s.io/kubernetes/test/e2e_kubeadm"}
}

func upstreamTools() []string {
	const images = "k8s.io/kubernetes/test/images/"
	return []string{"github.com/onsi/ginkgo/v2/ginkgo", images + "agnhost", images + "nonewprivs", images + "regression-issue-74839"}
}

// upstreamPrograms compiles all of them.
func (b builder) upstreamPrograms(ctx context.Context, module, dir string) error {
	for _, suite := range upstreamSuites() {
		program := filepath.Join(dir, filepath.Base(suite)+".test")
		cmd := b.goCommand(ctx, module, slices.Concat([]string{"test", "-vet=off", "-c"}, compileFlags(""), []string{"-o", program, suite})...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compile %s: %w: %s", suite, err, lastLines(string(out), 10))
		}
	}
	return b.goBuild(ctx, module, dir, "", upstreamTools()...)
}

// testImages asks the tests which images they use, and returns the references that each of ours stands for.
func testImages(ctx context.Context, program string) (map[string][]string, error) {
	cmd := exec.CommandContext(ctx, program, "--list-images")
	cmd.Env = append(os.Environ(), "KUBECONFIG=/dev/null")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list images of tests: %w", err)
	}
	return referencesOf(string(out))
}

// referencesOf sorts references by the image of ours that stands for them. Those without one are left out.
func referencesOf(list string) (map[string][]string, error) {
	names := map[string][]string{}
	for reference := range strings.FieldsSeq(list) {
		repository, _, _ := strings.Cut(reference, ":")
		if own, ok := standIns()[repository]; ok {
			names[own] = append(names[own], reference)
		}
	}
	for repository, own := range standIns() {
		if len(names[own]) == 0 {
			return nil, fmt.Errorf("list images of tests: image %s stands for %s, and no test uses it", own, repository)
		}
	}
	return names, nil
}
