package main

import (
	"errors"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// folder is the Go files of one package of the product, tests left out.
type folder struct {
	path  string
	fset  *token.FileSet
	files []*ast.File
}

// missing imports nothing: what is looked at stands in the package itself.
type missing struct{}

func (missing) Import(string) (*types.Package, error) { return nil, errors.New("not looked at") }

// circle is the size of the largest group of files of which each refers to every other, by way of further ones: to read
// one of them is to read all.
func (f folder) circle() int {
	refers := f.references()
	largest := 0
	seen := map[string]bool{}
	for _, from := range f.names() {
		if seen[from] {
			continue
		}
		group := 0
		for _, to := range f.names() {
			if to == from || reaches(refers, from, to) && reaches(refers, to, from) {
				seen[to] = true
				group++
			}
		}
		largest = max(largest, group)
	}
	return largest
}

// names are those of the files.
func (f folder) names() []string {
	var names []string
	for _, file := range f.files {
		names = append(names, f.fileOf(file.Pos()))
	}
	slices.Sort(names)
	return names
}

func (f folder) fileOf(pos token.Pos) string { return filepath.Base(f.fset.Position(pos).Filename) }

// references are the files that a file refers to.
func (f folder) references() map[string]map[string]bool {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: missing{}, Error: func(error) {}}
	pkg, _ := config.Check(f.path, f.fset, f.files, info) // of a package without its imports, errors are no news
	refers := map[string]map[string]bool{}
	for use, object := range info.Uses {
		if object.Pkg() != pkg || !ofPackage(object, pkg) {
			continue
		}
		from, to := f.fileOf(use.Pos()), f.fileOf(object.Pos())
		if from == to {
			continue
		}
		if refers[from] == nil {
			refers[from] = map[string]bool{}
		}
		refers[from][to] = true
	}
	return refers
}

// ofPackage tells what is declared for the whole package, a method too, from what is local.
func ofPackage(object types.Object, pkg *types.Package) bool {
	if f, is := object.(*types.Func); is && f.Signature().Recv() != nil {
		return true
	}
	return object.Parent() == pkg.Scope()
}

func reaches(refers map[string]map[string]bool, from, to string) bool {
	seen := map[string]bool{from: true}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for next := range refers[queue[0]] {
			if next == to {
				return true
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return false
}

// takers are the functions of the package by the struct to which they take a pointer, be it of this package or of
// another one.
func (f folder) takers() map[string]int {
	takers := map[string]int{}
	for _, file := range f.files {
		for _, decl := range file.Decls {
			function, is := decl.(*ast.FuncDecl)
			if !is {
				continue
			}
			taken := map[string]bool{}
			for _, field := range function.Type.Params.List {
				if name := pointedAt(field.Type); name != "" {
					taken[name] = true
				}
			}
			for name := range taken {
				takers[name]++
			}
		}
	}
	return takers
}

// pointedAt is the name of the type of ours behind a pointer; empty: it is another type, or of another module by its
// usual packages.
func pointedAt(e ast.Expr) string {
	star, is := e.(*ast.StarExpr)
	if !is {
		return ""
	}
	switch x := star.X.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		of, is := x.X.(*ast.Ident)
		if !is || strings.HasSuffix(of.Name, "v1") || slices.Contains([]string{"testing", "ast", "types", "cobra"}, of.Name) {
			return ""
		}
		return of.Name + "." + x.Sel.Name
	}
	return ""
}
