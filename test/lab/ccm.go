//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/test/lab/image"
)

// ccm is a cloud-controller-manager that is not ours, as its authors build and pack it.
type ccm struct {
	folder  string // nested module that pins it
	module  string // the Go module that it is in
	program string // import path of its main package
	image   string // without the tag, which is the module's version
	// command says that the image has a command and no entrypoint, so that arguments alone replace it.
	command bool
	// cloud is a program of the nested module that plays the cloud, if its authors publish one for tests.
	cloud string
	// sample says that the main package is upstream's sample, with the files of folder put in.
	sample bool
}

// ccms are those that a Go module proxy has, with a main package that builds without cgo.
func ccms() map[string]ccm {
	return map[string]ccm{
		"aws": {
			folder: "ccm-aws", module: "k8s.io/cloud-provider-aws", program: "k8s.io/cloud-provider-aws/cmd/aws-cloud-controller-manager",
			image: "registry.k8s.io/provider-aws/cloud-controller-manager",
		},
		"openstack":      openstack("ccm-openstack"),
		"openstack-1.35": openstack("ccm-openstack-1.35"),
		"openstack-1.34": openstack("ccm-openstack-1.34"),
		"vsphere": {
			folder: "ccm-vsphere", module: "k8s.io/cloud-provider-vsphere",
			program: "k8s.io/cloud-provider-vsphere/cmd/vsphere-cloud-controller-manager",
			image:   "registry.k8s.io/cloud-pv-vsphere/cloud-provider-vsphere", cloud: "./vcenter",
		},
		"sample": {
			folder: "ccm-sample", module: "k8s.io/kubernetes", program: "k8s.io/kubernetes/cmd/cloud-controller-manager",
			image: "lab.local/sample-ccm", sample: true,
		},
	}
}

// openstack has a folder for the newest release, and one for each release of an earlier minor, for upgrades.
func openstack(folder string) ccm {
	return ccm{
		folder: folder, module: "k8s.io/cloud-provider-openstack",
		program: "k8s.io/cloud-provider-openstack/cmd/openstack-cloud-controller-manager",
		image:   "registry.k8s.io/provider-os/openstack-cloud-controller-manager", command: true,
	}
}

func newCCM(p *places) *cobra.Command {
	names := ccmNames()
	return &cobra.Command{
		Use:       "ccm " + strings.Join(names, "|"),
		Short:     "Build a vendor's cloud-controller-manager, and print the path of its image archive (vsphere: with vcenter beside it, a simulator)",
		ValidArgs: names,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := newBuilder(cmd.Context(), cmd.ErrOrStderr(), p)
			if err != nil {
				return err
			}
			dir, err := b.ccm(cmd.Context(), ccms()[args[0]])
			if err != nil {
				return fmt.Errorf("build cloud-controller-manager %s: %w", args[0], err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(dir, "image.tar"))
			return err
		},
	}
}

func ccmNames() []string { return slices.Sorted(maps.Keys(ccms())) }

// ccm returns the folder with image.tar, and beside it the program that plays the cloud.
func (b builder) ccm(ctx context.Context, c ccm) (string, error) {
	version, err := b.required(c.folder, c.module)
	if err != nil {
		return "", err
	}
	inputs, err := b.inputs(c.part(version))
	if err != nil {
		return "", err
	}
	return b.cached(ctx, c.folder, inputs, func(dir string) error {
		if err := b.buildCCM(ctx, c, dir, version); err != nil {
			return err
		}
		if err := image.Write(filepath.Join(dir, "image.tar"), c.spec(dir, version)); err != nil {
			return err
		}
		return os.Remove(filepath.Join(dir, c.file())) // it is in the image
	})
}

func (b builder) buildCCM(ctx context.Context, c ccm, output, version string) error {
	p, dir := c.part(version), filepath.Join(b.source, c.folder)
	if !c.sample {
		return b.goBuild(ctx, dir, output, p.ldflags, p.packages...)
	}
	overlay, err := sampleOverlay(ctx, dir, c.program)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(overlay) }()
	return b.goBuild(ctx, dir, output, p.ldflags, "-overlay="+overlay, ".")
}

// part is what the go command has to know.
func (c ccm) part(version string) part {
	p := part{
		module: c.folder, packages: []string{c.program}, recipe: fmt.Sprintf("%+v", c),
		ldflags: "-X k8s.io/component-base/version.gitVersion=" + version,
	}
	if c.cloud != "" {
		p.packages = append(p.packages, c.cloud)
	}
	return p
}

// sampleOverlay shows the go command the files of upstream's sample in our folder, except for those that we have
// written instead, as upstream's text asks of authors.
func sampleOverlay(ctx context.Context, dir, program string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", `{{.Dir}}{{range .GoFiles}} {{.}}{{end}}`, program)
	list.Dir = dir
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w", program, err)
	}
	files := strings.Fields(string(out))
	replace := map[string]string{}
	for _, name := range files[1:] {
		ours := filepath.Join(dir, name)
		if _, err := os.Stat(ours); err != nil {
			replace[ours] = filepath.Join(files[0], name)
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "overlay-*.json")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return f.Name(), err
}

// file is what the go command calls the program.
func (c ccm) file() string {
	if c.sample {
		return c.folder
	}
	return filepath.Base(c.program)
}

// spec packs the program where its authors have it.
func (c ccm) spec(programs, version string) image.Spec {
	if c.sample {
		version = "1"
	}
	target := "/bin/" + c.file()
	spec := image.Spec{Name: c.image + ":" + version, Files: map[string]string{target: filepath.Join(programs, c.file())}}
	if c.command {
		spec.Command = []string{target}
	} else {
		spec.Entrypoint = []string{target}
	}
	return spec
}
