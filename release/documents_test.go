package main

import (
	"debug/buildinfo"
	encodingjson "encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"sigs.k8s.io/yaml"
)

// TestSBOM_Modules describes this test's own program, which has modules: each is listed, and each relation leads to a package.
func TestSBOM_Modules(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := made.release("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	r.work, r.programs = t.TempDir(), map[string]string{}
	on := platform{"linux", "amd64"}
	binary := filepath.Join(r.work, on.String(), "ccmadm")
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, binary); err != nil {
		t.Fatal(err)
	}
	r.dir = made.dir
	file := filepath.Join(t.TempDir(), "sbom.json")
	if err := r.writeSBOM(file, "ccmadm_v0.1.0_linux_amd64.tar.gz", programs()[0], on); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	want, got := []string{vexProductID + "@v0.1.0"}, []string{}
	for _, m := range info.Deps {
		want = append(want, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	if len(want) < 5 {
		t.Fatalf("this program has %d modules, want some to look at", len(want))
	}
	doc := readSPDX(t, file)
	for _, p := range doc.Packages {
		for _, ref := range p.PackageExternalReferences {
			if !strings.HasPrefix(ref.Locator, "pkg:golang/stdlib@") {
				got = append(got, ref.Locator)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
	checkRelations(t, doc)
}

// TestSBOM: each archive and image has one, which names it by its digest and is as SPDX 2.3 wants it.
func TestSBOM(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(made.dir, "*"+sbomSuffix))
	if err != nil || len(files) != 11 {
		t.Fatalf("want 11 documents, got %d, error %v", len(files), err)
	}
	for _, file := range files {
		doc := readSPDX(t, file)
		of := strings.TrimSuffix(filepath.Base(file), sbomSuffix)
		sum, err := digest(filepath.Join(made.dir, of))
		if err != nil {
			t.Fatal(err)
		}
		first := doc.Packages[0]
		if first.PackageName != of || first.PackageChecksums[0].Value != sum {
			t.Errorf("%s describes %s with digest %s, want %s", of, first.PackageName, first.PackageChecksums[0].Value, sum)
		}
		programs := 1
		if strings.HasSuffix(of, "_image.tar") {
			programs = 2
		}
		contained := slices.DeleteFunc(slices.Clone(doc.Relationships), func(r *v2_3.Relationship) bool {
			return r.Relationship != common.TypeRelationshipContains
		})
		for _, c := range contained { // and an OpenVEX file is about each of them
			at := slices.IndexFunc(doc.Packages, func(p *v2_3.Package) bool { return p.PackageSPDXIdentifier == c.RefB.ElementRefID })
			refs := doc.Packages[at].PackageExternalReferences
			if len(refs) != 1 || refs[0].Locator != vexProductID+"@v0.1.0" {
				t.Errorf("%s: a program is not %s: %v", of, vexProductID, refs)
			}
		}
		if len(contained) != programs {
			t.Errorf("%s contains %d programs, want %d", of, len(contained), programs)
		}
		checkRelations(t, doc)
	}
}

func checkRelations(t *testing.T, doc *v2_3.Document) {
	t.Helper()
	known := map[common.ElementID]bool{"DOCUMENT": true}
	for _, p := range doc.Packages {
		if known[p.PackageSPDXIdentifier] {
			t.Errorf("%s is there twice", p.PackageSPDXIdentifier)
		}
		known[p.PackageSPDXIdentifier] = true
	}
	for _, r := range doc.Relationships {
		if !known[r.RefA.ElementRefID] || !known[r.RefB.ElementRefID] {
			t.Errorf("relation of what is not there: %s %s %s", r.RefA.ElementRefID, r.Relationship, r.RefB.ElementRefID)
		}
	}
}

func readSPDX(t *testing.T, file string) *v2_3.Document {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	doc := &v2_3.Document{}
	if err := json.ReadInto(f, doc); err != nil {
		t.Fatalf("%s: %v", filepath.Base(file), err)
	}
	if ns, err := url.Parse(doc.DocumentNamespace); err != nil || !ns.IsAbs() || strings.Contains(doc.DocumentNamespace, "#") {
		t.Errorf("%s: namespace %q: want an absolute URI without a fragment (SPDX 2.3, 6.5)", filepath.Base(file), doc.DocumentNamespace)
	}
	if doc.SPDXVersion != "SPDX-2.3" || doc.DataLicense != "CC0-1.0" || doc.DocumentNamespace == "" || len(doc.Packages) == 0 {
		t.Fatalf("%s: not a document of SPDX 2.3: %+v", filepath.Base(file), doc)
	}
	return doc
}

// TestProvenance compares the fields that slsa-verifier and policies read by their names in the specification.
func TestProvenance(t *testing.T) {
	var s map[string]any
	if err := encodingjson.Unmarshal(read(t, filepath.Join(made.dir, "ccmadm_v0.1.0_provenance.json")), &s); err != nil {
		t.Fatal(err)
	}
	at := func(path ...string) any {
		var value any = s
		for _, key := range path {
			value = value.(map[string]any)[key]
		}
		return value
	}
	const releasing = "https://github.com/ccmadm/ccmadm/blob/main/docs/contributing/releasing.md"
	for _, tt := range []struct {
		want string
		path []string
	}{
		{"https://in-toto.io/Statement/v1", []string{"_type"}},
		{"https://slsa.dev/provenance/v1", []string{"predicateType"}},
		{releasing + "#make-release", []string{"predicate", "buildDefinition", "buildType"}},
		{"v0.1.0", []string{"predicate", "buildDefinition", "externalParameters", "version"}},
		{releasing + "#by-hand", []string{"predicate", "runDetails", "builder", "id"}},
	} {
		if got := at(tt.path...); got != tt.want {
			t.Errorf("%s: got %v, want %s", strings.Join(tt.path, "."), got, tt.want)
		}
	}
	commit := at("predicate", "buildDefinition", "resolvedDependencies").([]any)[0].(map[string]any)
	want := map[string]any{
		"uri":    "git+https://github.com/ccmadm/ccmadm@refs/tags/v0.1.0",
		"digest": map[string]any{"gitCommit": "0123456789abcdef0123456789abcdef01234567"},
	}
	if diff := cmp.Diff(want, commit); diff != "" {
		t.Errorf("commit (-want +got):\n%s", diff)
	}
	if subjects := at("subject").([]any); len(subjects) < 30 {
		t.Errorf("%d subjects, want every artefact", len(subjects))
	}
}

func TestKrew(t *testing.T) {
	var plugin struct {
		APIVersion string                `json:"apiVersion"`
		Kind       string                `json:"kind"`
		Metadata   struct{ Name string } `json:"metadata"`
		Spec       struct {
			Version, Homepage, ShortDescription, Description, Caveats string
			Platforms                                                 []struct {
				Selector struct {
					MatchLabels map[string]string `json:"matchLabels"`
				} `json:"selector"`
				URI, SHA256, Bin string
			}
		} `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(read(t, filepath.Join(made.dir, "ccmadm.krew.yaml")), &plugin); err != nil {
		t.Fatal(err)
	}
	if plugin.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || plugin.Kind != "Plugin" ||
		plugin.Metadata.Name != "ccmadm" || plugin.Spec.Version != "v0.1.0" || len(plugin.Spec.ShortDescription) > 55 {
		t.Errorf("got %+v", plugin)
	}
	if len(plugin.Spec.Platforms) != 4 {
		t.Fatalf("got %d platforms, want 4", len(plugin.Spec.Platforms))
	}
	for _, p := range plugin.Spec.Platforms {
		archive := "ccmadm_v0.1.0_" + p.Selector.MatchLabels["os"] + "_" + p.Selector.MatchLabels["arch"] + ".tar.gz"
		checkDownload(t, archive, p.URI, p.SHA256)
		if list := run(t, "tar", "-tzf", filepath.Join(made.dir, archive)); p.Bin != "ccmadm" || list != "LICENSE\nccmadm\n" {
			t.Errorf("%s: krew links %q, and wants the licence; the archive has\n%s", archive, p.Bin, list)
		}
	}
}

func TestHomebrew(t *testing.T) {
	formula := string(read(t, filepath.Join(made.dir, "ccmadm.rb")))
	part := regexp.MustCompile(`on_(macos|linux) do|on_(arm|intel) do\s+url "([^"]+)"\s+sha256 "([0-9a-f]{64})"`)
	os, number := "", 0
	for _, m := range part.FindAllStringSubmatch(formula, -1) {
		if m[1] != "" {
			os = map[string]string{"macos": "darwin", "linux": "linux"}[m[1]]
			continue
		}
		number++
		checkDownload(t, "ccmadm_v0.1.0_"+os+"_"+map[string]string{"arm": "arm64", "intel": "amd64"}[m[2]]+".tar.gz", m[3], m[4])
	}
	if number != 4 || !strings.Contains(formula, "version \"0.1.0\"\n") {
		t.Errorf("%d downloads, want 4:\n%s", number, formula)
	}
}

func checkDownload(t *testing.T, archive, url, sum string) {
	t.Helper()
	want, err := digest(filepath.Join(made.dir, archive))
	if err != nil {
		t.Fatal(err)
	}
	if url != "https://github.com/ccmadm/ccmadm/releases/download/v0.1.0/"+archive || sum != want {
		t.Errorf("%s: url %s, digest %s, want %s", archive, url, sum, want)
	}
}
