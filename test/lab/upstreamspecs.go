//go:build linux

package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ccmadm/ccmadm/test/lab/image"
)

// standIns maps the repositories of images that tests use to the image of ours that stands for them.
func standIns() map[string]string {
	const tests = "registry.k8s.io/e2e-test-images/"
	return map[string]string{
		tests + "agnhost":                                 "agnhost",
		tests + "busybox":                                 "busybox",
		tests + "glibc-dns-testing":                       "agnhost",
		tests + "jessie-dnsutils":                         "agnhost",
		"registry.k8s.io/build-image/distroless-iptables": "agnhost",
		tests + "nginx":                                   "nginx",
		tests + "httpd":                                   "nginx",
		tests + "kitten":                                  "kitten",
		tests + "nautilus":                                "nautilus",
		tests + "nonewprivs":                              "nonewprivs",
		tests + "regression-issue-74839":                  "regression-issue-74839",
		tests + "sample-apiserver":                        "sample-apiserver",
	}
}

// imageMaker has the folders that images of tests are made of.
type imageMaker struct {
	builder

	module    string // requires k8s.io/kubernetes
	programs  string // compiled from it
	debian    string
	dns       string
	apiserver string
}

// write writes the archives, and the names of each image beside it.
func (m imageMaker) write(ctx context.Context, dir string, names map[string][]string) error {
	work := dir + ".image"
	defer func() { _ = os.RemoveAll(work) }()
	specs, err := m.specs(ctx, work)
	if err != nil {
		return err
	}
	for name, spec := range specs {
		spec.Name, spec.Env = names[name][0], []string{"PATH=" + machinePath}
		if err := image.Write(filepath.Join(dir, name+".tar"), spec); err != nil {
			return err
		}
		list := []byte(strings.Join(names[name], "\n") + "\n")
		if err := os.WriteFile(filepath.Join(dir, name+".names"), list, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// specs says what is in each image. Work is a folder for the files that are made.
func (m imageMaker) specs(ctx context.Context, work string) (map[string]image.Spec, error) {
	sources, err := m.sources(ctx)
	if err != nil {
		return nil, err
	}
	root, err := m.testRoot(ctx, work)
	if err != nil {
		return nil, err
	}
	files, err := programFiles(root)
	if err != nil {
		return nil, err
	}
	for name, content := range testFiles() {
		if files[name], err = ownFile(work, name, content, 0o644); err != nil {
			return nil, err
		}
	}
	files["/agnhost"], files["/agnhost-2"] = filepath.Join(m.programs, "agnhost"), filepath.Join(m.programs, "agnhost")
	files["/coredns"] = filepath.Join(m.dns, "coredns")
	for _, name := range []string{"localhost.crt", "localhost.key"} { // with which agnhost's porter serves
		files["/"+name] = filepath.Join(sources, "agnhost/porter", name)
	}
	specs := map[string]image.Spec{
		"agnhost": {Files: files, Entrypoint: []string{"/agnhost"}, Command: []string{"pause"}},
		"nginx":   {Files: files, Command: []string{"/usr/bin/nginx"}},
	}
	if specs["busybox"], err = busybox(ctx, root, files); err != nil {
		return nil, err
	}
	for _, animal := range []string{"kitten", "nautilus"} {
		pictures := map[string]string{"/agnhost": files["/agnhost"]}
		for _, name := range []string{"data.json", animal + ".jpg"} {
			pictures["/"+name] = filepath.Join(sources, animal, "html", name)
		}
		specs[animal] = image.Spec{Files: pictures, Entrypoint: []string{"/agnhost"}, Command: []string{"test-webserver"}}
	}
	for program, dir := range map[string]string{"regression-issue-74839": m.programs, "sample-apiserver": m.apiserver} {
		specs[program] = image.Spec{
			Files: map[string]string{"/" + program: filepath.Join(dir, program)}, Entrypoint: []string{"/" + program},
		}
	}
	content, err := os.ReadFile(filepath.Join(m.programs, "nonewprivs"))
	if err != nil {
		return nil, err
	}
	// Without the bit, the tests that no process gains root by it would pass in any cluster.
	nnp, err := ownFile(work, "nnp", string(content), 0o755|fs.ModeSetuid)
	specs["nonewprivs"] = image.Spec{Files: map[string]string{"/usr/local/bin/nnp": nnp}, Command: []string{"/usr/local/bin/nnp"}}
	return specs, err
}

// sources returns the folder with the sources of upstream's images.
func (m imageMaker) sources(ctx context.Context) (string, error) {
	out, err := m.goCommand(ctx, m.module, "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return "", fmt.Errorf("find k8s.io/kubernetes: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "test/images"), nil
}

// ownFile writes a file that an image shall have, and returns where.
func ownFile(work, name, content string, mode fs.FileMode) (string, error) {
	path := filepath.Join(work, "own", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return "", err
	}
	return path, os.Chmod(path, mode) // as the image has it, whatever the umask is
}
