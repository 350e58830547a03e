package docs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/minors"
)

// tracked are the files of the repository, from its root, without links.
func tracked(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "-z").Output()
	if err != nil {
		t.Fatalf("list the files of the repository, for which git and a clone are needed: %v", err)
	}
	var list []string
	for name := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join("..", name)); err == nil && info.Mode().IsRegular() { // others were deleted just now
			list = append(list, name)
		}
	}
	if len(list) < 1000 {
		t.Fatalf("%d files are tracked, want those of the repository", len(list))
	}
	return list
}

// binaryOf names the kind of a program, a library or an archive by its first bytes.
func binaryOf(data []byte) string {
	for magic, kind := range map[string]string{
		"\x7fELF": "ELF", "MZ": "PE", "\xfe\xed\xfa\xce": "Mach-O", "\xfe\xed\xfa\xcf": "Mach-O", "\xce\xfa\xed\xfe": "Mach-O",
		"\xcf\xfa\xed\xfe": "Mach-O", "\xca\xfe\xba\xbe": "Mach-O or Java", "\x00asm": "WebAssembly", "!<arch>\n": "ar",
		"PK\x03\x04": "zip", "PK\x05\x06": "zip", "\x1f\x8b": "gzip", "BZh": "bzip2", "\xfd7zXZ\x00": "xz", "\x28\xb5\x2f\xfd": "zstd",
		"7z\xbc\xaf\x27\x1c": "7z", "\xed\xab\xee\xdb": "rpm",
	} {
		if bytes.HasPrefix(data, []byte(magic)) {
			return kind
		}
	}
	if len(data) > 262 && string(data[257:262]) == "ustar" {
		return "tar"
	}
	return ""
}

func TestChecklist_NoBinaries(t *testing.T) {
	others := []string{"docs/images/doctor.png"} // no text, and neither program nor archive
	for _, name := range tracked(t) {
		data := []byte(read(t, filepath.Join("..", name)))
		if kind := binaryOf(data); kind != "" {
			t.Errorf("%s is %s: build it, or fetch it by its digest", name, kind)
		} else if bytes.IndexByte(data, 0) >= 0 && !slices.Contains(others, name) {
			t.Errorf("%s is no text", name)
		}
	}
	for _, name := range others {
		read(t, filepath.Join("..", name)) // it is still there
	}
	// This program is one; so is the object of a library, and an archive.
	own, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for want, data := range map[string][]byte{
		binaryOf(own): own, "ar": []byte("!<arch>\nx"), "tar": append(make([]byte, 257), "ustar\x0000"...),
	} {
		if got := binaryOf(data); got == "" || got != want {
			t.Errorf("%q is taken for %q", want, got)
		}
	}
}

// step is what workflows and actions have in common.
type step struct{ Uses, Run string }

func TestChecklist_Actions(t *testing.T) {
	for _, path := range append(glob(t, "../.github/workflows/*"), "../action.yml") {
		text := read(t, path)
		for _, problem := range actionProblems(text, filepath.Base(path) != "action.yml") {
			t.Errorf("%s: %s", path, problem)
		}
	}
	const digest = "11bd71901bbe5b1630ceea73d27597364c9af683"
	for text, want := range map[string]int{
		"permissions: {}\njobs: {a: {permissions: {}, steps: [{uses: actions/checkout@" + digest + "}]}}":                    0,
		"permissions: {}\njobs: {a: {permissions: {}, steps: [{uses: actions/checkout@v5}]}}":                                1,
		"permissions: {}\njobs: {a: {permissions: {}, steps: [{uses: docker://alpine:3}]}}":                                  1,
		"permissions: {}\njobs: {a: {permissions: {}, uses: a/b/.github/workflows/c.yaml@main}}":                             1,
		"permissions: {}\njobs: {a: {permissions: {}, steps: [{run: 'echo ${{ github.head_ref }}'}]}}":                       1,
		"permissions: write-all\njobs: {a: {permissions: {}, steps: [{run: 'true'}]}}":                                       1,
		"permissions: {}\njobs: {a: {steps: [{run: 'true'}]}}":                                                               1,
		"permissions: {}\njobs: {a: {permissions: {}, steps: [{uses: ./.github/actions/a}, {run: 'echo \"$GITHUB_REF\"'}]}}": 0,
	} {
		if got := actionProblems(text, true); len(got) != want {
			t.Errorf("%s: %q, want %d problems", text, got, want)
		}
	}
}

func actionProblems(text string, workflow bool) []string {
	var doc struct {
		Permissions any
		Jobs        map[string]struct {
			Uses        string
			Permissions any
			Steps       []step
		}
		Runs struct{ Steps []step }
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return []string{err.Error()}
	}
	var problems []string
	if none, is := doc.Permissions.(map[string]any); workflow && (!is || len(none) > 0) {
		problems = append(problems, "it does not begin with permissions: {}")
	}
	steps := doc.Runs.Steps
	for name, job := range doc.Jobs {
		if _, is := job.Permissions.(map[string]any); !is {
			problems = append(problems, "job "+name+" does not name its permissions")
		}
		steps = append(append(steps, step{Uses: job.Uses}), job.Steps...)
	}
	if len(steps) == 0 {
		problems = append(problems, "it has no steps")
	}
	pinned := regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40}$|@sha256:[0-9a-f]{64}$`)
	for _, s := range steps {
		if s.Uses != "" && !strings.HasPrefix(s.Uses, "./") && !pinned.MatchString(s.Uses) {
			problems = append(problems, "uses "+s.Uses+": pin it by the digest of its commit")
		}
		if strings.Contains(s.Run, "${{") {
			problems = append(problems, "a script has an expression: give it by env")
		}
	}
	return problems
}

func TestChecklist_Tools(t *testing.T) {
	seen := 0
	for _, name := range tracked(t) {
		text := read(t, filepath.Join("..", name))
		switch {
		case name == "Makefile", strings.HasSuffix(name, ".sh"), strings.HasPrefix(name, ".github/"), name == ".ci/run":
		case strings.HasSuffix(name, ".go"):
			text = strings.Join(regexp.MustCompile(`(?m)^//go:generate .*$`).FindAllString(text, -1), "\n")
		default:
			continue
		}
		tools, problems := unpinnedTools(text)
		seen += tools
		for _, problem := range problems {
			t.Errorf("%s: %s", name, problem)
		}
	}
	if seen < 5 {
		t.Errorf("%d tools were seen, want linter, generators and signer", seen)
	}
	for text, want := range map[string]int{
		"go run example.com/a@v1.2.3 x": 0, "go run example.com/a@latest": 1, "GOBIN=x go install example.com/a@main": 1,
		"go run example.com/a@$(go list -m -f {{.Version}} b)": 0, "go run ./cmd/a": 0, "curl -fsSL https://a.example/x.sh | sudo bash": 1,
		"npx renovate": 1, "pip install x": 1, "pip install x==1.2.3": 0,
	} {
		if _, got := unpinnedTools(text); len(got) != want {
			t.Errorf("%s: %q, want %d problems", text, got, want)
		}
	}
}

// unpinnedTools looks for programs that come from the Internet. It returns how many there are, and what is wrong.
func unpinnedTools(text string) (seen int, problems []string) {
	version := regexp.MustCompile(`@(v\d+\.\d+\.\d+|\$\(go list -m )`)
	module := regexp.MustCompile(`\bgo (?:run|install)((?: -\S+)*) ([\w.-]+\.[a-z]+/[^\s@]+)(@\S+(?: list -m)?\s?)?`)
	for _, m := range module.FindAllStringSubmatch(text, -1) {
		seen++
		if !version.MatchString(m[3]) {
			problems = append(problems, m[2]+m[3]+": pin its version")
		}
	}
	other := regexp.MustCompile(`(?:curl|wget)[^\n|]*\|\s*(?:sudo )?(?:ba)?sh\b|\bnpx [^\n]*|\bpip3? install [^\n]*`)
	for _, m := range other.FindAllString(text, -1) {
		if !strings.Contains(m, "==") && !regexp.MustCompile(`@\d+\.\d+\.\d+`).MatchString(m) {
			problems = append(problems, m+": pin its version or digest")
		}
	}
	return seen, problems
}

func TestChecklist_Fuzzers(t *testing.T) {
	listed := map[string]bool{}
	page := read(t, "contributing/checklist.md")
	for _, row := range tableRows(page, "## Fuzzers") {
		m := regexp.MustCompile(`\[(Fuzz\w+)\]\(\.\./\.\./([^)]+)\)`).FindStringSubmatch(row)
		if m == nil {
			t.Errorf("this row names no fuzzer: %s", row)
			continue
		}
		listed[m[2]+" "+m[1]] = true
	}
	found := map[string]bool{}
	fuzzer := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)
	for _, name := range tracked(t) {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range fuzzer.FindAllStringSubmatch(read(t, filepath.Join("..", name)), -1) {
			found[name+" "+m[1]] = true
		}
	}
	for fuzzer := range found {
		if !listed[fuzzer] {
			t.Errorf("contributing/checklist.md lacks %s", fuzzer)
		}
	}
	for fuzzer := range listed {
		if !found[fuzzer] {
			t.Errorf("contributing/checklist.md has %s, which is not there", fuzzer)
		}
	}
	if len(found) == 0 {
		t.Error("no fuzzer was found")
	}
}

func TestChecklist_Licence(t *testing.T) {
	sum := sha256.Sum256([]byte(read(t, "../LICENSE")))
	if got := hex.EncodeToString(sum[:]); got != apacheDigest {
		t.Errorf("LICENSE has digest %s, want that of https://www.apache.org/licenses/LICENSE-2.0.txt", got)
	}
}

// apacheDigest is that of https://www.apache.org/licenses/LICENSE-2.0.txt.
const apacheDigest = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"

func TestChecklist_Dependencies(t *testing.T) {
	if strings.Contains(read(t, "../go.mod"), "=>") {
		t.Error("go.mod replaces a module: go install would build another one")
	}
	const format = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}"
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, "./cmd/...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the modules of the programs: %v", err)
	}
	modules := slices.Compact(slices.Sorted(strings.Lines(string(out))))
	if len(modules) < 50 {
		t.Errorf("%d modules are in the programs, want all", len(modules))
	}
	for _, line := range modules {
		module, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if problem := licenceProblem(t, dir); problem != "" {
			t.Errorf("%s: %s", module, problem)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "COPYING"), []byte("GNU LESSER GENERAL PUBLIC LICENSE\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if licenceProblem(t, dir) == "" || licenceProblem(t, t.TempDir()) == "" {
		t.Error("copyleft, or no licence, is not seen")
	}
}

func licenceProblem(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)`).MatchString(e.Name()) {
			continue
		}
		found = true
		if m := regexp.MustCompile(`(?i)GNU (lesser |affero |library )?general public|mozilla public|eclipse public|european union public`).
			FindString(read(t, filepath.Join(dir, e.Name()))); m != "" {
			return e.Name() + " is copyleft: " + m
		}
	}
	if !found {
		return "it has no licence"
	}
	return ""
}

func TestChecklist_Policies(t *testing.T) {
	for name, has := range map[string]string{
		"SECURITY.md": "security/advisories/new", "GOVERNANCE.md": "## Decisions", "MAINTAINERS.md": "## Maintainers",
		"CODE_OF_CONDUCT.md": "cncf/foundation", "CONTRIBUTING.md": "Signed-off-by", "CHANGELOG.md": "## Unreleased", "DCO": "Version 1.1",
	} {
		if text := read(t, filepath.Join("..", name)); !strings.Contains(text, has) {
			t.Errorf("%s lacks %q", name, has)
		}
	}
}

// TestChecklist_SupportedVersions: a new minor changes window.txt alone, and the policies agree with each other and the programs.
func TestChecklist_SupportedVersions(t *testing.T) {
	security, support := read(t, "../SECURITY.md"), read(t, "reference/support-policy.md")
	for name, text := range map[string]string{
		"SECURITY.md": security, "support-policy.md": support, "GOVERNANCE.md": read(t, "../GOVERNANCE.md"),
	} {
		for _, minor := range minors.Known() {
			if regexp.MustCompile(`\b` + regexp.QuoteMeta(minor) + `\b`).MatchString(text) {
				t.Errorf("%s names Kubernetes %s: api/minors/window.txt does", name, minor)
			}
		}
	}
	if len(minors.Supported()) != 3 || !strings.Contains(support, "the three newest minor versions") {
		t.Errorf("clusters are made of %v, and the policy says otherwise", minors.Supported())
	}
	for _, text := range []string{security, support} {
		if !strings.Contains(text, "six months") {
			t.Error("the policies differ in how long a minor version has fixes")
		}
	}
}
