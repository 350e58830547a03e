package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// database writes one entry about fmt.Println as a database of vulnerabilities, and returns its URL.
func database(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index/db.json":      `{"modified":"2026-11-01T00:00:00Z"}`,
		"index/modules.json": `[{"path":"stdlib","vulns":[{"id":"GO-2026-0001","modified":"2026-11-01T00:00:00Z","fixed":"99.0.0"}]}]`,
		"ID/GO-2026-0001.json": `{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"2026-11-01T00:00:00Z",` +
			`"published":"2026-11-01T00:00:00Z","aliases":["CVE-2026-0001"],"summary":"It prints","details":"It prints.",` +
			`"affected":[{"package":{"name":"stdlib","ecosystem":"Go"},` +
			`"ranges":[{"type":"SEMVER","events":[{"introduced":"0"},{"fixed":"99.0.0"}]}],` +
			`"ecosystem_specific":{"imports":[{"path":"fmt","symbols":["Println"]}]}}]}`,
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + dir
}

// vulnerable writes a module whose program calls one function of package fmt.
func vulnerable(t *testing.T, call string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/program\n\ngo 1.26.0\n", "main.go": "package main\n\nimport \"fmt\"\n\nfunc main() { _, _ = fmt." + call + " }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestVulnerabilities(t *testing.T) {
	known := database(t)
	var excuse vexStatement
	excuse.Vulnerability.Name, excuse.Status = "CVE-2026-0001", vexNotAffected
	open := excuse
	open.Status = "under_investigation"
	for _, tt := range []struct {
		name, call, database string
		vex                  vexDocument
		wantErr              string
	}{
		{name: "it is called", call: `Println("x")`, database: known, wantErr: "GO-2026-0001 in stdlib@"},
		{name: "its package is there, and it is not called", call: `Print("x")`, database: known},
		{name: "it does not matter", call: `Println("x")`, database: known, vex: vexDocument{Statements: []vexStatement{excuse}}},
		{name: "nobody knows yet", call: `Println("x")`, database: known, vex: vexDocument{Statements: []vexStatement{open}}, wantErr: "GO-2026-0001"},
		{name: "no database", call: `Print("x")`, database: "http://127.0.0.1:1", wantErr: "release without this check with --no-vuln-check"},
		{name: "no such folder", call: `Print("x")`, database: "file:///none", wantErr: "--no-vuln-check"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := vulnerabilities(t.Context(), vulnerable(t, tt.call), tt.database, tt.vex, ".")
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("got %v, want %q", err, tt.wantErr)
			}
		})
	}
}

// TestVEX holds the file to the specification; what it says of modules that the product has no longer has to go.
func TestVEX(t *testing.T) {
	doc, data, err := readVEX()
	if err != nil {
		t.Fatal(err)
	}
	mod := string(read(t, filepath.Join("..", "go.mod")))
	for _, s := range doc.Statements {
		for _, c := range s.Products[0].Subcomponents {
			if module := strings.TrimPrefix(c.ID, "pkg:golang/"); !strings.Contains(mod, "\t"+module+" v") {
				t.Errorf("%s: go.mod has no module %s", s.Vulnerability.Name, module)
			}
		}
	}
	for change, wantErr := range map[string]string{
		`"status": "not_affected"->"status": "harmless"`: "status:",
		`vulnerable_code_not_present->it_is_fine`:        "justification",
		`{"name": "CVE-2020-8561"}->{"name": "bug 7"}`:   "vulnerability: want the name",
		`"author"->"writer"`:                             `unknown field "writer"`,
		`CVE-2020-8562->CVE-2020-8561`:                   "has a statement already",
		`2026-11-26T00:00:00Z->yesterday`:                "parsing time",
	} {
		before, after, _ := strings.Cut(change, "->")
		_, err := parseVEX([]byte(strings.Replace(string(data), before, after, 1)))
		if err == nil || !strings.Contains(err.Error(), wantErr) {
			t.Errorf("%s: got %v, want %q", change, err, wantErr)
		}
	}
}
