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
)

// over is something that is larger than it should be.
type over struct {
	kind  string // file, func, package, circle or takers
	where string // path, path:function, the folder of a package, or for takers folder:type
	size  int
}

func (o over) String() string {
	what := map[string]string{
		"file": "lines", "func": "lines", "package": "files", "circle": "files that refer to each other",
		"takers": "functions that take it",
	}[o.kind]
	return fmt.Sprintf("%s %s: %d %s", o.kind, o.where, o.size, what)
}

// measured is what the files of a module say.
type measured struct {
	files, functions             int
	tests, product, productTests int                // lines
	folders                      map[string]*folder // the packages of the product
	over                         []over
}

// measure reads every Go file below root that people write.
func measure(root string) (*measured, error) {
	m := &measured{folders: map[string]*folder{}}
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
	for _, f := range m.folders {
		m.judge(f)
	}
	slices.SortFunc(m.over, func(a, b over) int { return strings.Compare(a.kind+a.where, b.kind+b.where) })
	return m, err
}

func (m *measured) add(path string, text []byte) error {
	in := &folder{path: filepath.ToSlash(filepath.Dir(path)), fset: token.NewFileSet()}
	if known := m.folders[in.path]; known != nil {
		in = known
	}
	files := in.fset
	file, err := parser.ParseFile(files, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	if !isTest(path) && !strings.HasPrefix(path, "test/") {
		in.files = append(in.files, file)
		m.folders[in.path] = in
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
	return nil
}

// count sorts a file's lines: what is below test/, and what only tests import, is no product.
func (m *measured) count(path string, lines int) {
	m.files++
	switch {
	case strings.HasPrefix(path, "test/"):
		m.tests += lines
	case isTest(path):
		m.tests += lines
		m.productTests += lines
	default:
		m.product += lines
	}
}

// isTest tells of what only tests compile or import.
func isTest(path string) bool {
	return strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test")
}

// judge measures a package as a whole.
func (m *measured) judge(f *folder) {
	if n := len(f.files); n > maxFiles {
		m.over = append(m.over, over{"package", f.path, n})
	}
	if n := f.circle(); n > maxCircle {
		m.over = append(m.over, over{"circle", f.path, n})
	}
	for name, n := range f.takers() {
		if n > maxTakers {
			m.over = append(m.over, over{"takers", f.path + ":" + name, n})
		}
	}
}

func (m *measured) function(path string, f *ast.FuncDecl, lines int) {
	m.functions++
	name := f.Name.Name
	if f.Recv != nil {
		of := typeName(f.Recv.List[0].Type)
		name = of + "." + name
	}
	if lines > maxFunc && (!isTest(path) || lines > maxTable) {
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
