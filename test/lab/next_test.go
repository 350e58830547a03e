//go:build linux

package main

import (
	"archive/zip"
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/minors"
)

// files writes files into a new folder.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Of two pre-releases the older one is taken, which all libraries have; a library without any does not count.
func TestCommonVersion(t *testing.T) {
	for _, tt := range []struct {
		next []string
		want string
	}{
		{[]string{"v0.38.0-alpha.2", "v0.38.0-alpha.0", ""}, "38.0-alpha.0"},
		{[]string{"v0.38.0-alpha.2", "v1.38.0-alpha.2"}, "38.0-alpha.2"},
		{[]string{"v0.38.0-alpha.10", "v0.38.0-alpha.9"}, "38.0-alpha.9"},
		{[]string{"", ""}, ""},
	} {
		var list []library
		for _, version := range tt.next {
			list = append(list, library{next: version})
		}
		if got := commonVersion(list); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.next, got, tt.want)
		}
	}
}

func TestWriteDifferences(t *testing.T) {
	const gates = `package features
var gates = map[featuregate.Feature]featuregate.VersionedSpecs{
	NodeSwap: {{Default: STAGE, PreRelease: featuregate.Beta}},
	Stays: {{Default: true, PreRelease: featuregate.Beta}},
	genericfeatures.Moves: {
		{Version: version.MustParse("1.36"), Default: false, PreRelease: featuregate.Alpha},
		NEWER
	},
	OTHER: {{Version: version.MustParse("1.36"), Default: false, PreRelease: featuregate.Alpha}},
}
`
	const options = `package options
func add(fs *pflag.FlagSet) {
	fs.StringVar(&o.A, "stays", o.A, "text")
	fs.IntVarP(&o.B, "NAME", "n", 1, "text")
	fs.Set("not-a-flag", "x")
}
`
	const types = "package v1\ntype Spec struct {\n\tA int `json:\"a\"`\n\tB int `json:\"FIELD,omitempty\"`\n\tC int `json:\"-\"`\n}\ntype hidden struct { D int `json:\"d\"` }\n"
	write := func(newer, other, flag, field string) string {
		r := strings.NewReplacer("STAGE", strconv.FormatBool(newer != ""), "NEWER", newer, "OTHER", other, "NAME", flag, "FIELD", field)
		return files(t, map[string]string{
			"pkg/features/gates.go": r.Replace(gates), "pkg/options.go": r.Replace(options), "core/v1/types.go": r.Replace(types),
			"core/v1/types_test.go": "package v1\nnot Go", "testdata/x.go": "not Go",
		})
	}
	now := write("", "Gone", "old", "old")
	next := write(`{Version: version.MustParse("1.38"), Default: true, PreRelease: featuregate.GA, LockToDefault: true},`, "New", "new", "new")
	var out bytes.Buffer
	if err := writeDifferences(&out, library{path: "k8s.io/x", now: "v1", shown: "v2"}, now, next); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"k8s.io/x v1 -> v2: 4 of 4 differ: feature gates",
		"feature gate - Gone Alpha, default false",
		"feature gate ~ Moves Alpha, default false -> GA, default true, locked",
		"feature gate + New Alpha, default false",
		"feature gate ~ NodeSwap Beta, default false -> Beta, default true, in the table of " + minors.Newest(),
		"k8s.io/x v1 -> v2: 2 of 2 differ: flags", "flag + --new", "flag - --old",
		"k8s.io/x v1 -> v2: 2 of 2 differ: API fields", "API field + core/v1.Spec.new", "API field - core/v1.Spec.old",
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.TrimSpace(strings.TrimPrefix(line, "[next]")))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A mistake in the project's own code and tests is found, with the file that says so; go.mod stays as it is.
func TestTypeCheck(t *testing.T) {
	dir := files(t, map[string]string{
		"go.mod":      "module example.com/m\n\ngo 1.26\n",
		"a/a.go":      "package a\n\nimport \"strings\"\n\nfunc A() string { return strings.ToUpper(\"a\") }\n",
		"a/a_test.go": "package a_test\n\nimport (\n\t\"testing\"\n\n\t\"example.com/m/a\"\n)\n\nfunc TestA(t *testing.T) { var n int = a.A(); _ = n }\n",
		"b/b.go":      "package b\n\nimport \"example.com/m/a\"\n\nfunc B() { a.Gone() }\n",
	})
	count, broken, err := (builder{}).typeCheck(t.Context(), dir, filepath.Join(dir, "go.mod"))
	if err != nil || count < 10 {
		t.Fatalf("%d packages, %v", count, err)
	}
	if len(broken) != 2 || !strings.Contains(broken[0], "a_test.go:9:") || !strings.Contains(broken[1], "undefined: a.Gone") {
		t.Errorf("got %q", broken)
	}
	if !slices.IsSorted(broken) {
		t.Errorf("not in order: %q", broken)
	}
}

// What a newer Go alone unpacks is read from the archive, and nothing is written outside of the folder.
func TestUnpack(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "m.zip")
	var data bytes.Buffer
	w := zip.NewWriter(&data)
	for _, name := range []string{"k8s.io/x@v1/pkg/a.go", "k8s.io/x@v1/README.md", "k8s.io/x@v1/../../../evil.go"} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("package pkg\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(archive, data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := unpack(archive, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := eachFile(dir, func(path string, _ *ast.File) { got = append(got, path) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []string{"pkg/a.go"}) {
		t.Errorf("got %q", got)
	}
}
