package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// over is something that is larger than it should be.
type over struct {
	kind  string // file, func or lines
	where string // path, path:function, or for lines a folder
	size  int
}

func (o over) String() string {
	what := map[string]string{"file": "lines", "func": "lines", "lines": "lines that are too wide"}[o.kind]
	return fmt.Sprintf("%s %s: %d %s", o.kind, o.where, o.size, what)
}

// measured is what the files of a module say.
type measured struct {
	files, functions             int
	tests, product, productTests int            // lines
	methods                      map[string]int // by type
	wide                         map[string]int // lines that are too wide, by folder
	over                         []over
}

// measure reads every Go file below root that people write.
func measure(root string) (*measured, error) {
	m := &measured{methods: map[string]int{}, wide: map[string]int{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return m.add(filepath.ToSlash(rel), text)
	})
	for folder, n := range m.wide {
		if n > 0 {
			m.over = append(m.over, over{"lines", folder, n})
		}
	}
	slices.SortFunc(m.over, func(a, b over) int { return strings.Compare(a.kind+a.where, b.kind+b.where) })
	return m, err
}

func (m *measured) add(path string, text []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}
	lines := bytes.Count(text, []byte("\n"))
	m.count(path, lines)
	if lines > maxFile {
		m.over = append(m.over, over{"file", path, lines})
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			m.function(path, f, files.Position(f.End()).Line-files.Position(f.Pos()).Line+1)
		}
	}
	wide := 0
	for line := range bytes.Lines(text) {
		if utf8.RuneCount(bytes.TrimRight(line, "\r\n")) > maxColumns {
			wide++
		}
	}
	m.wide[filepath.Dir(path)] += wide
	return nil
}

// count sorts a file's lines: what is below test/, and what only tests import, is no product.
func (m *measured) count(path string, lines int) {
	m.files++
	test := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test")
	switch {
	case strings.HasPrefix(path, "test/"):
		m.tests += lines
	case test:
		m.tests += lines
		m.productTests += lines
	default:
		m.product += lines
	}
}

func (m *measured) function(path string, f *ast.FuncDecl, lines int) {
	m.functions++
	name := f.Name.Name
	if f.Recv != nil {
		of := typeName(f.Recv.List[0].Type)
		name = of + "." + name
		m.methods[filepath.Dir(path)+"."+of]++
	}
	if lines > maxFunc {
		m.over = append(m.over, over{"func", path + ":" + name, lines})
	}
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}

// largestType is the type with the most methods in a package, by its folder.
func (m *measured) largestType(folder string) (string, int) {
	name, most := "", 0
	for key, n := range m.methods {
		if of, ok := strings.CutPrefix(key, folder+"."); ok && (n > most || n == most && of < name) {
			name, most = of, n
		}
	}
	return name, most
}
