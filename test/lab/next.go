//go:build linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/minors"
)

func newNext(p *places) *cobra.Command {
	return &cobra.Command{
		Use:   "next",
		Short: "Check this project against the newest pre-release of Kubernetes' libraries, without compiling",
		Long: `Asks for pre-releases of the k8s.io modules in go.mod, type-checks all packages with the newest that can be had, in a
temporary copy of go.mod, and compares feature gates, flags and fields of the API with those of the libraries in use. What
cannot be had is said, with the reason. Nothing in the repository changes. It fails where the project does not type-check.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newBuilder(cmd.Context(), cmd.OutOrStdout(), p)
			if err != nil {
				return err
			}
			return b.next(cmd.Context())
		},
	}
}

// library is a module that Kubernetes publishes from its own tree.
type library struct {
	path string // k8s.io/api
	// now is the version in go.mod, next the newest pre-release that can be had; empty: there is none.
	now, next string
	// shown is the newest pre-release whose sources can be read, and zip where they are if this Go does not unpack them.
	shown, zip string
	// lacks says why there is none, or why not a newer one.
	lacks []string
}

// next is everything that `bin/lab next` does. b.source is the folder of the lab, two below the repository's.
func (b builder) next(ctx context.Context) error {
	root := filepath.Join(b.source, "../..")
	libraries, err := b.directLibraries(ctx, root)
	if err != nil {
		return err
	}
	for i := range libraries {
		b.lookAhead(ctx, &libraries[i])
	}
	common := commonVersion(libraries)
	for _, l := range libraries {
		fmt.Fprintf(b.out, "[next] %s %s: pre-release %s\n", l.path, l.now, cmp.Or(l.next, "none"))
		for _, why := range l.lacks {
			fmt.Fprintf(b.out, "[next]   not had: %s\n", why)
		}
	}
	dir, err := os.MkdirTemp("", "ccmadm-next-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder for temporary files
	if common == "" {
		fmt.Fprintln(b.out, "[next] no library has a pre-release that can be had: nothing is type-checked")
	} else if err = b.checkNext(ctx, root, filepath.Join(dir, "go.mod"), common, libraries); ctx.Err() != nil {
		return err
	}
	return errors.Join(err, b.compareNext(ctx, dir, libraries))
}

// directLibraries are those of go.mod that have the version of the release in use.
func (b builder) directLibraries(ctx context.Context, root string) ([]library, error) {
	out, err := b.goCommand(ctx, root, "mod", "edit", "-json").Output()
	if err != nil {
		return nil, fmt.Errorf("read go.mod: %w", err)
	}
	var mod struct {
		Require []struct {
			Path, Version string
			Indirect      bool
		}
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("read go.mod: %w", err)
	}
	var list []library
	for _, r := range mod.Require {
		if strings.HasPrefix(r.Path, "k8s.io/") && !r.Indirect && releaseOf(r.Version) != "" {
			list = append(list, library{path: r.Path, now: r.Version})
		}
	}
	api := slices.IndexFunc(list, func(l library) bool { return l.path == "k8s.io/api" })
	if api < 0 {
		return nil, errors.New("find k8s.io/api in go.mod")
	}
	release := releaseOf(list[api].now)
	return slices.DeleteFunc(list, func(l library) bool { return releaseOf(l.now) != release }), nil
}

// releaseOf is the part that all libraries of a release of Kubernetes have in common: 37.2 of v0.37.2 and of v1.37.2; empty
// of a version that is no release's.
func releaseOf(version string) string {
	for _, major := range []string{"v0.", "v1."} {
		rest, is := strings.CutPrefix(version, major)
		if minor, _, _ := strings.Cut(rest, "."); is && len(minor) == 2 {
			return rest
		}
	}
	return ""
}

// lookAhead finds the newest pre-release of a library that is newer than what is in use and that this Go can read.
func (b builder) lookAhead(ctx context.Context, l *library) {
	cmd := b.goCommand(ctx, os.TempDir(), "list", "-m", "-versions", "-json", l.path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var found struct{ Versions []string }
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil {
		l.lacks = append(l.lacks, fmt.Sprintf("the list of versions: %v: %s", err, strings.TrimSpace(stderr.String())))
		return
	}
	now, err := version.ParseSemantic(l.now)
	if err != nil {
		l.lacks = append(l.lacks, err.Error())
		return
	}
	for _, text := range slices.Backward(found.Versions) { // which go list has sorted
		switch v, err := version.ParseSemantic(text); {
		case err != nil || !now.LessThan(v):
			continue
		case v.PreRelease() == "":
			l.lacks = append(l.lacks, text+" is a release: see make minor")
			continue
		}
		found, err := b.downloadModule(ctx, l.path, text)
		if l.shown == "" && (found.Dir != "" || found.Zip != "") {
			l.shown, l.zip = text, found.Zip
			if found.Dir != "" {
				l.zip = ""
			}
		}
		if err != nil {
			l.lacks = append(l.lacks, err.Error())
			continue
		}
		l.next = text
		return
	}
	if len(l.lacks) == 0 {
		l.lacks = append(l.lacks, fmt.Sprintf("the proxy lists nothing newer (%d versions)", len(found.Versions)))
	}
}

// commonVersion is the newest pre-release that all libraries which have any can be had in: libraries of two pre-releases do
// not fit together.
func commonVersion(libraries []library) string {
	var oldest *version.Version
	for _, l := range libraries {
		if v, err := version.ParseSemantic("0." + releaseOf(l.next)); err == nil && (oldest == nil || v.LessThan(oldest)) {
			oldest = v
		}
	}
	if oldest == nil {
		return ""
	}
	return releaseOf("v" + oldest.String())
}

// checkNext type-checks the project with the pre-release, as the temporary file of a module says it.
func (b builder) checkNext(ctx context.Context, root, file, release string, libraries []library) error {
	for from, to := range map[string]string{"go.mod": file, "go.sum": strings.TrimSuffix(file, "mod") + "sum"} {
		data, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			return err
		}
	}
	get := []string{"get", "-modfile=" + file}
	for _, l := range libraries {
		if l.next == "" {
			fmt.Fprintf(b.out, "[next] %s stays at %s\n", l.path, l.now)
			continue
		}
		get = append(get, l.path+"@"+l.next[:strings.Index(l.next, ".")+1]+release)
	}
	if err := b.run(ctx, root, get...); err != nil {
		return fmt.Errorf("resolve v0.%s: %w", release, err)
	}
	count, broken, err := b.typeCheck(ctx, root, file)
	if err != nil {
		return fmt.Errorf("type-check with v0.%s: %w", release, err)
	}
	fmt.Fprintf(b.out, "[next] type-checked %d packages with v0.%s: %d errors\n", count, release, len(broken))
	for _, e := range broken {
		fmt.Fprintf(b.out, "[next]   %s\n", e)
	}
	if len(broken) > 0 {
		return fmt.Errorf("type-check with v0.%s: %d errors", release, len(broken))
	}
	return nil
}

// compareNext reports what the libraries of the pre-release have gained and lost. Each is compared with itself.
func (b builder) compareNext(ctx context.Context, dir string, libraries []library) error {
	for _, l := range libraries {
		if l.shown == "" {
			fmt.Fprintf(b.out, "[next] %s is not compared: no pre-release; what only it has is not known\n", l.path)
			continue
		}
		now, err := b.sources(ctx, l.path, l.now)
		if err != nil {
			return err
		}
		var next string
		if l.zip != "" {
			next, err = unpack(l.zip, dir)
		} else {
			next, err = b.sources(ctx, l.path, l.shown)
		}
		if err != nil {
			return err
		}
		if err := writeDifferences(b.out, l, now, next); err != nil {
			return err
		}
	}
	return nil
}

// writeDifferences also says which feature gates the newest table has: lint and upgrade plans go by it.
func writeDifferences(out io.Writer, l library, now, next string) error {
	table, _ := minors.Load().Of(minors.Newest())
	gates := slices.Collect(maps.Keys(table.FeatureGates))
	for _, kind := range []struct {
		name string
		read func(dir string) (map[string]string, error)
	}{{"feature gate", gatesIn}, {"flag", flagNamesIn}, {"API field", fieldsIn}} {
		before, err := kind.read(now)
		if err != nil {
			return err
		}
		after, err := kind.read(next)
		if err != nil {
			return err
		}
		if len(before)+len(after) == 0 {
			continue
		}
		lines := differences(before, after)
		fmt.Fprintf(out, "[next] %s %s -> %s: %d of %d differ: %ss\n", l.path, l.now, l.shown, len(lines), len(after), kind.name)
		for _, line := range lines {
			if name := strings.Fields(line)[1]; slices.Contains(gates, name) {
				line += ", in the table of " + minors.Newest()
			}
			fmt.Fprintf(out, "[next]   %s %s\n", kind.name, line)
		}
	}
	return nil
}
