//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func newUpstream(p *places) *cobra.Command {
	return newFolder(p, "upstream MINOR", cobra.ExactArgs(1),
		"Build Kubernetes' own tests of a minor, and print the folder: e2e.test, e2e_kubeadm.test, ginkgo, images, and their names",
		func(ctx context.Context, b builder, args []string) (string, error) { return b.upstream(ctx, args[0]) })
}

// upstream returns a folder with Kubernetes' tests, which the module upstream-MINOR pins to the machines' version, with
// ginkgo, which runs them, and with the archives agnhost.tar and nginx.tar. In the files agnhost.names and nginx.names
// are the references by which the tests ask for these images, one per line. The images are made of Debian's packages.
func (b builder) upstream(ctx context.Context, minor string) (string, error) {
	p := part{module: "upstream-" + minor, recipe: fmt.Sprint(testImageFormat, testPackages(), testPrograms())}
	inputs, err := b.inputs(p)
	if err != nil {
		return "", fmt.Errorf("tests of Kubernetes %s: %w", minor, err)
	}
	debian, err := b.debian(ctx, debianMirror)
	if err != nil {
		return "", err
	}
	dns, err := b.make(ctx, dnsPart())
	if err != nil {
		return "", err
	}
	return b.cached(ctx, p.module, append(inputs, debian, dns), func(dir string) error {
		module := filepath.Join(b.source, p.module)
		if err := b.upstreamPrograms(ctx, module, dir); err != nil {
			return err
		}
		names, err := testImages(ctx, filepath.Join(dir, "e2e.test"))
		if err != nil {
			return err
		}
		if err := b.writeTestImages(ctx, module, dir, debian, dns, names); err != nil {
			return fmt.Errorf("images of tests: %w", err)
		}
		return nil
	})
}

// upstreamPrograms compiles two suites of tests, their server, and what runs them.
func (b builder) upstreamPrograms(ctx context.Context, module, dir string) error {
	for _, suite := range []string{"e2e", "e2e_kubeadm"} {
		cmd := b.goCommand(ctx, module, "test", "-vet=off", "-c", "-trimpath", "-ldflags", "-s -w",
			"-o", filepath.Join(dir, suite+".test"), "k8s.io/kubernetes/test/"+suite)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compile test/%s: %w: %s", suite, err, lastLines(string(out), 10))
		}
	}
	return b.goBuild(ctx, module, dir, "", "k8s.io/kubernetes/test/images/agnhost", "github.com/onsi/ginkgo/v2/ginkgo")
}

// testImages asks the tests which images they want, and returns the references that each of ours can stand for.
func testImages(ctx context.Context, program string) (map[string][]string, error) {
	cmd := exec.CommandContext(ctx, program, "--list-images")
	cmd.Env = append(os.Environ(), "KUBECONFIG=/dev/null")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list images of tests: %w", err)
	}
	names := map[string][]string{}
	for reference := range strings.FieldsSeq(string(out)) {
		repository, _, _ := strings.Cut(reference, ":")
		switch repository {
		case "registry.k8s.io/e2e-test-images/agnhost", "registry.k8s.io/e2e-test-images/busybox",
			"registry.k8s.io/e2e-test-images/glibc-dns-testing", "registry.k8s.io/e2e-test-images/jessie-dnsutils":
			names["agnhost"] = append(names["agnhost"], reference)
		case "registry.k8s.io/e2e-test-images/nginx":
			names["nginx"] = append(names["nginx"], reference)
		}
	}
	if len(names["agnhost"]) == 0 || len(names["nginx"]) == 0 {
		return nil, errors.New("list images of tests: want agnhost and nginx among them")
	}
	return names, nil
}
