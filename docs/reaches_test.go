package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// reaches has by folder, from the root of the repository, the declarations of its package by name; those of methods begin with a dot.
type reaches map[string]map[string][]declaration

// declaration is what a function, a method, a variable or a constant has: strings, and names of others.
type declaration struct {
	value          bool // a variable or a constant
	names, strings []string
}

// texts returns what a test has, and the functions of its package that it reaches: a text for each, see around. Of TestX/name it is
// the script testdata/name.txtar, or testdata/cluster/name.txtar for TestClusterX. A test that is not there is an error.
func (r reaches) texts(folder, test string) ([]string, error) {
	if r[folder] == nil {
		found, err := declarationsOf(filepath.Join("..", folder))
		if err != nil {
			return nil, fmt.Errorf("read the tests of %s: %w", folder, err)
		}
		r[folder] = found
	}
	name, script, isScript := strings.Cut(test, "/")
	if len(r[folder][name]) == 0 {
		return nil, fmt.Errorf("there is no %s in %s", name, folder)
	}
	if isScript {
		dir := filepath.Join("..", folder, "testdata")
		if strings.HasPrefix(name, "TestCluster") {
			dir = filepath.Join(dir, "cluster")
		}
		data, err := os.ReadFile(filepath.Join(dir, script+".txtar"))
		return []string{string(data)}, err
	}
	var texts []string
	seen := []string{name}
	for i := 0; i < len(seen); i++ {
		for _, d := range r[folder][seen[i]] {
			words := r.around(folder, d, 2)
			for _, n := range d.names {
				if len(r[folder][n]) > 0 && !slices.Contains(seen, n) && !strings.HasPrefix(n, "Test") {
					seen = append(seen, n)
				}
			}
			slices.Sort(words)
			texts = append(texts, strings.Join(slices.Compact(words), "\n"))
		}
	}
	return texts, nil
}

// around are the strings of a declaration, of the constants that it names, and of helpers that do little more than put a command
// together.
func (r reaches) around(folder string, d declaration, depth int) []string {
	const few = 8
	words := slices.Clone(d.strings)
	for _, name := range d.names {
		for _, of := range r[folder][name] {
			if depth > 0 && (of.value || len(of.strings) <= few) {
				words = append(words, r.around(folder, of, depth-1)...)
			}
		}
	}
	return words
}

// declarationsOf reads the tests of a folder. What the programs have is no test of them.
func declarationsOf(folder string) (map[string][]declaration, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("list its files: %d, %w", len(paths), err)
	}
	found := map[string][]declaration{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				name := decl.Name.Name
				if decl.Recv != nil {
					name = "." + name
				}
				found[name] = append(found[name], once(inside(decl)))
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if values, is := spec.(*ast.ValueSpec); is {
						d := once(inside(values))
						d.value = true
						for _, name := range values.Names {
							found[name.Name] = append(found[name.Name], d)
						}
					}
				}
			}
		}
	}
	return found, nil
}

// once has each name and string of a declaration once.
func once(d declaration) declaration {
	slices.Sort(d.names)
	slices.Sort(d.strings)
	return declaration{names: slices.Compact(d.names), strings: slices.Compact(d.strings)}
}

func inside(node ast.Node) declaration {
	var d declaration
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			d.names = append(d.names, "."+n.Sel.Name)
			inner := inside(n.X)
			d.names, d.strings = append(d.names, inner.names...), append(d.strings, inner.strings...)
			return false
		case *ast.Ident:
			d.names = append(d.names, n.Name)
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				d.strings = append(d.strings, text)
			}
		}
		return true
	})
	return d
}
