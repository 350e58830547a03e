package docs

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

//go:generate go test . -run ^TestReference_Permissions -count=1 -update

var update = flag.Bool("update", false, "rewrite the tables of reference/permissions.md")

// Names are on the wire: each constant of names.go is on the page that lists them.
func TestReference_Names(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../api/v1alpha1/names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	page := read(t, "reference/annotations-and-labels.md")
	ast.Inspect(file, func(n ast.Node) bool {
		literal, is := n.(*ast.BasicLit)
		if _, imports := n.(*ast.ImportSpec); imports || !is || literal.Kind != token.STRING {
			return !imports
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil || !strings.Contains(page, text) {
			t.Errorf("reference/annotations-and-labels.md lacks %s", literal.Value)
		}
		return true
	})
}

// The sources of metrics have one subsystem each.
func TestReference_Metrics(t *testing.T) {
	page := read(t, "reference/metrics.md")
	subsystem := regexp.MustCompile(`(?:subsystem = |Subsystem: |metrics\.Register\()"(\w+)"`)
	name := regexp.MustCompile(`(?:Name: |counter\(|gauge\()"(\w+)"`)
	found := 0
	for _, path := range goFiles(t, "../agent", "../cmd", "../provider") {
		text := read(t, path)
		of := subsystem.FindStringSubmatch(text)
		if of == nil {
			continue
		}
		for _, m := range name.FindAllStringSubmatch(text, -1) {
			found++
			if metric := of[1] + "_" + m[1]; !strings.Contains(page, "`"+metric+"`") {
				t.Errorf("reference/metrics.md lacks %s of %s", metric, path)
			}
		}
	}
	if want := strings.Count(page, "| `ccmadm_"); found != want {
		t.Errorf("the code has %d metrics, and reference/metrics.md %d", found, want)
	}
}

// Reasons of Events are literals of the code, and those of findings about machines and addresses.
func TestReference_Events(t *testing.T) {
	page := read(t, "reference/events.md")
	written := regexp.MustCompile(`(?:EventType(?:Normal|Warning), |warn\(node, )"(\w+)"`)
	reason := regexp.MustCompile(`\bReason:\s+"(\w+)"`)
	check := func(path string, expression *regexp.Regexp) {
		text, _, _ := strings.Cut(read(t, path), "ID: RouteMissing") // reasons of routes are no Events
		for _, m := range expression.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(page, "`"+m[1]+"`") {
				t.Errorf("reference/events.md lacks %s of %s", m[1], path)
			}
		}
	}
	for _, path := range goFiles(t, "../agent", "../provider") {
		check(path, written)
	}
	check("../api/finding/catalogue_machines.go", reason)
	check("../api/finding/catalogue_addresses.go", reason)
}

// Ports of the manifests and profiles, and those that are constants.
func TestReference_Ports(t *testing.T) {
	page := read(t, "reference/ports-and-firewall.md")
	port := regexp.MustCompile(`(?i)(?:Port: |port: |Port += )(\d{3,5})\b`)
	paths := append(goFiles(t, "../api/v1alpha1"), glob(t, "../manifests/*.yaml", "../templates/profiles/*.yaml")...)
	for _, path := range paths {
		for _, m := range port.FindAllStringSubmatch(read(t, path), -1) {
			if !strings.Contains(page, m[1]) {
				t.Errorf("reference/ports-and-firewall.md lacks port %s of %s", m[1], path)
			}
		}
	}
}

// The tables of permissions are those of the rules. With -update they are rewritten.
func TestReference_Permissions(t *testing.T) {
	const path = "reference/permissions.md"
	page := read(t, path)
	tables := regexp.MustCompile(`(?s)<!-- (\S+\.yaml) ?(\w*) -->\n.*?<!-- end -->`)
	want := tables.ReplaceAllStringFunc(page, func(old string) string {
		m := tables.FindStringSubmatch(old)
		first, _, _ := strings.Cut(old, "\n")
		return first + "\n" + rulesTable(t, m[1], m[2]) + "<!-- end -->"
	})
	switch {
	case want == page:
	case *update:
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is out of date: make generate", path)
	}
}

// rulesTable reads rules line by line: a key and its value on each. In a profile they are below rbac, of the manager at the
// left edge, of the node agent indented.
func rulesTable(t *testing.T, path, part string) string {
	t.Helper()
	text := read(t, filepath.Join("..", path))
	switch part {
	case "rbac":
		_, text, _ = strings.Cut(text, "\nrbac:")
	case "nodeAgent":
		_, text, _ = strings.Cut(text, "nodeAgent:")
		text, _, _ = strings.Cut(text, "\nconfig:")
		_, text, _ = strings.Cut(text, "rbac:")
	}
	b := &strings.Builder{}
	b.WriteString("| API group | resources | verbs | namespace | condition | why |\n|---|---|---|---|---|---|\n")
	rule := map[string]string{}
	flush := func() {
		if rule["resources"] == "" {
			return
		}
		resources := rule["resources"]
		if names := rule["resourceNames"]; names != "" {
			resources += " `" + strings.Trim(names, "`\"") + "`"
		}
		cells := []string{rule["apiGroups"], resources, rule["verbs"], rule["namespace"], rule["when"], rule["why"]}
		for i, cell := range cells {
			if cells[i] = strings.ReplaceAll(cell, "|", `\|`); cell == "" {
				cells[i] = "-"
			}
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		rule = map[string]string{}
	}
	key := regexp.MustCompile(`^\s*(- )?(\w+): (.+)$`)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		m := key.FindStringSubmatch(line)
		if m == nil {
			if line != "" && line[0] != ' ' && line[0] != '-' && line[0] != '#' {
				break // the next part of the profile
			}
			continue
		}
		if m[1] != "" {
			flush()
		}
		value, _, _ := strings.Cut(m[3], " #")
		rule[m[2]] = strings.Trim(strings.TrimSpace(value), `[]"`)
		if rule[m[2]] == "" && m[2] == "apiGroups" {
			rule[m[2]] = "core"
		}
	}
	flush()
	return b.String()
}
