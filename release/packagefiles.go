package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// sharedFiles are those of the package that are the same on every platform.
func (r *release) sharedFiles(ctx context.Context, kind nfpm.Packager) ([]entry, error) {
	completions, err := r.completions(ctx, kind)
	if err != nil {
		return nil, err
	}
	pages, err := r.manPages()
	if err != nil {
		return nil, err
	}
	units, err := r.units()
	if err != nil {
		return nil, err
	}
	documents, err := r.documents()
	if err != nil {
		return nil, err
	}
	list := append(completions, pages...)
	list = append(list, units...)
	return append(list, documents...), nil
}

// completions are written by the command itself, which is compiled for this machine for it.
func (r *release) completions(ctx context.Context, kind nfpm.Packager) ([]entry, error) {
	zsh := "vendor-completions" // Debian's; elsewhere zsh does not look there
	if kind == nfpm.Packager(rpm.DefaultRPM) {
		zsh = "site-functions"
	}
	var list []entry
	for _, c := range []struct{ shell, file string }{
		{"bash", "usr/share/bash-completion/completions/ccmadm"},
		{"zsh", "usr/share/zsh/" + zsh + "/_ccmadm"},
		{"fish", "usr/share/fish/vendor_completions.d/ccmadm.fish"},
	} {
		out, err := r.run(ctx, "completion", c.shell)
		if err != nil {
			return nil, err
		}
		list = append(list, entry{name: c.file, data: out})
	}
	return list, nil
}

// run has the released ccmadm run here. It has the code of all modules, so that it gets nothing of the environment, which has keys and
// tokens where a release is signed.
func (r *release) run(ctx context.Context, args ...string) ([]byte, error) {
	binary, err := r.binary(ctx, "ccmadm", platform{"linux", runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	var problem bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env, cmd.Stderr = []string{"HOME=" + r.work}, &problem
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ccmadm %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(problem.Bytes()))
	}
	return out, nil
}

// manPages are made of docs/reference, which is generated from the commands.
func (r *release) manPages() ([]entry, error) {
	files, err := filepath.Glob(filepath.Join(r.source, "docs", "reference", "ccmadm*.md"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("make man pages: no page of a command in %s/docs/reference", r.source)
	}
	var list []entry
	for _, file := range files {
		page, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".md"), "_", "-")
		text, err := gzipped(md2man.Render(manSource(name, r, string(page))))
		if err != nil {
			return nil, err
		}
		list = append(list, entry{name: "usr/share/man/man1/" + name + ".1.gz", data: text})
	}
	return list, nil
}

// manSource turns a page of the reference into what md2man reads: a title line, and sections by the names that man pages
// have.
func manSource(name string, r *release, page string) []byte {
	_, page, _ = strings.Cut(page, "\n\n") // the heading, which NAME repeats
	short, page, _ := strings.Cut(page, "\n\n")
	page = regexp.MustCompile(`\[([^\]]+)\]\(ccmadm[a-z_-]*\.md\)`).ReplaceAllStringFunc(page, func(link string) string {
		shown := link[1:strings.IndexByte(link, ']')]
		return "**" + strings.ReplaceAll(shown, " ", "-") + "(1)**"
	})
	usage := ""
	page = regexp.MustCompile("```\n(ccmadm[^`]*)\n```\n").ReplaceAllStringFunc(page, func(block string) string {
		usage = strings.Trim(block, "`\n")
		return ""
	})
	page = strings.ReplaceAll(page, "### Synopsis\n", "### Description\n")
	page = regexp.MustCompile(`(?m)^### (.*)$`).ReplaceAllStringFunc(page, func(heading string) string {
		return "# " + strings.ToUpper(strings.TrimPrefix(heading, "### "))
	})
	title := fmt.Sprintf("%% %q \"1\" %q \"ccmadm %s\" \"ccmadm\"\n", strings.ToUpper(name), r.date.Format("January 2006"), r.version)
	return []byte(title + "# NAME\n" + name + ` \- ` + short + "\n\n# SYNOPSIS\n**" + usage + "**\n\n" + page)
}

// preset keeps the units off: a machine's first boot enables all units that no preset names. Debian has none that says no, Fedora has.
const preset = `disable ccmadm-kubelet.service
disable ccmadm-certs.service
disable ccmadm-certs.timer
`

// units are those that ccmadm writes to /etc for itself. A unit there takes the place of the package's.
func (r *release) units() ([]entry, error) {
	list := []entry{{name: "usr/lib/systemd/system-preset/80-ccmadm.preset", data: []byte(preset)}}
	for _, unit := range []string{"kubelet/ccmadm-kubelet.service", "certs/ccmadm-certs.service", "certs/ccmadm-certs.timer"} {
		text, err := os.ReadFile(filepath.Join(r.source, "templates", filepath.FromSlash(unit)))
		if err != nil {
			return nil, err
		}
		text = bytes.ReplaceAll(text, []byte("${program}"), []byte("/usr/bin/ccmadm"))
		list = append(list, entry{name: "usr/lib/systemd/system/" + filepath.Base(unit), data: text})
	}
	return list, nil
}

// documents are what Debian's policy asks for, and what lintian is told.
func (r *release) documents() ([]entry, error) {
	changes := fmt.Sprintf("ccmadm (%s) stable; urgency=medium\n\n  * Release %s: %s/blob/%s/CHANGELOG.md\n\n -- %s  %s\n",
		debianVersion(r.version), r.version, repository, r.version, r.packageInfo(platform{"linux", "amd64"}).Maintainer, r.date.Format(rfc5322))
	changelog, err := gzipped([]byte(changes))
	if err != nil {
		return nil, err
	}
	list := []entry{{name: "usr/share/doc/ccmadm/changelog.gz", data: changelog}}
	for name, target := range map[string]string{
		"copyright": "usr/share/doc/ccmadm/copyright", "lintian-overrides": "usr/share/lintian/overrides/ccmadm",
	} {
		text, err := expand(name, r)
		if err != nil {
			return nil, err
		}
		list = append(list, entry{name: target, data: text})
	}
	return list, nil
}

// rfc5322 is the form of dates in Debian's changelogs.
const rfc5322 = "Mon, 02 Jan 2006 15:04:05 -0700"

// debianVersion sorts a candidate before its release.
func debianVersion(version string) string {
	return strings.Replace(strings.TrimPrefix(version, "v"), "-", "~", 1)
}

func gzipped(data []byte) ([]byte, error) {
	var out bytes.Buffer
	err := compress(&out, func(w io.Writer) error { _, err := w.Write(data); return err })
	return out.Bytes(), err
}
