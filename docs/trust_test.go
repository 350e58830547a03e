package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreats: each threat of the security model, and each rule of the checklist, names a test that exists.
func TestThreats(t *testing.T) {
	for path, part := range map[string]string{
		"concepts/security-model.md": "## Threats", "contributing/checklist.md": "# Checklist",
		"adr/0045-stability-of-v1alpha1.md": "## Decision",
	} {
		rows := tableRows(read(t, path), part)
		if len(rows) < 5 {
			t.Errorf("%s: %d rows after %s, want a table of tests", path, len(rows), part)
		}
		for _, row := range rows {
			for _, problem := range unattacked(t, path, row) {
				t.Errorf("%s: %s\n%s", path, problem, row)
			}
		}
	}
}

// TestThreats_Seen: the check sees a row without a test, and a test that is not there.
func TestThreats_Seen(t *testing.T) {
	const here = "trust_test.go"
	for row, want := range map[string]int{
		"| a | b | [TestThreats](" + here + ") |":                         0,
		"| a | b | no test |":                                             1,
		"| a | b | [TestNothingOfTheKind](" + here + ") |":                1,
		"| a | b | [TestThreats](" + here + "), [TestB](" + here + ") |":  1,
		"| a | [TestThreats](" + here + ") is not in the last column | |": 1,
	} {
		if got := unattacked(t, "page.md", row); len(got) != want {
			t.Errorf("%s: %q, want %d problems", row, got, want)
		}
	}
}

// tableRows are those of the first table after a heading, without its head.
func tableRows(text, heading string) []string {
	_, text, _ = strings.Cut("\n"+text, "\n"+heading+"\n")
	var rows []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "|"):
			rows = append(rows, line)
		case len(rows) > 0:
			return rows[min(2, len(rows)):]
		}
	}
	return rows[min(2, len(rows)):]
}

// unattacked says what is wrong with the tests in the last column of a row.
func unattacked(t *testing.T, page, row string) []string {
	t.Helper()
	cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(row), "|"), "|")
	link := regexp.MustCompile(`\[((?:Test|Fuzz)\w+)\]\(([^)]+)\)`)
	tests := link.FindAllStringSubmatch(cells[len(cells)-1], -1)
	if len(tests) == 0 {
		return []string{"there is no test in the last column"}
	}
	var problems []string
	for _, m := range tests {
		if file := filepath.Join(filepath.Dir(page), m[2]); !declares(t, file, m[1]) {
			problems = append(problems, file+" has no test "+m[1])
		}
	}
	return problems
}

// declares tells whether a Go file has that test or fuzzer, as the testing package knows it.
func declares(t *testing.T, path, name string) bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil || !strings.HasSuffix(path, "_test.go") {
		t.Errorf("read %s: %v, want a file of tests", path, err)
		return false
	}
	for _, d := range file.Decls {
		if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && f.Name.Name == name && len(f.Type.Params.List) == 1 {
			return true
		}
	}
	return false
}
