//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// listed is what `go list` says of a package.
type listed struct {
	Dir, ImportPath, Name string
	GoFiles               []string
	ImportMap             map[string]string
	Standard              bool
	Module                *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

func (l *listed) ours() bool { return l.Module != nil && l.Module.Main }

// typeCheck checks all packages of the main module and their tests with a file of a module. Of other packages only what is
// declared is looked at, which takes seconds where compiling takes the better part of an hour. It returns how many packages
// were looked at, and what is wrong with ours.
func (b builder) typeCheck(ctx context.Context, root, file string) (count int, broken []string, err error) {
	cmd := b.goCommand(ctx, root, "list", "-e", "-deps", "-test", "-json", "-mod=mod", "-modfile="+file, "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, nil, fmt.Errorf("go list: %w: %s", err, lastLines(stderr.String(), 10))
	}
	c := &checker{fset: token.NewFileSet(), done: map[string]*types.Package{"unsafe": types.Unsafe}}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for { // what is imported comes before what imports it
		var p listed
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			slices.Sort(c.broken)
			return len(c.done), slices.Compact(c.broken), nil
		case err != nil:
			return 0, nil, err
		case ctx.Err() != nil:
			return 0, nil, ctx.Err()
		}
		if p.Error != nil && (p.ours() || p.Module == nil && !p.Standard) {
			c.broken = append(c.broken, p.ImportPath+": "+strings.TrimSpace(p.Error.Err))
		}
		if !strings.HasSuffix(p.ImportPath, ".test") && p.ImportPath != "unsafe" { // a main that is made for a test
			c.check(&p)
		}
	}
}

// checker has the packages that were looked at.
type checker struct {
	fset   *token.FileSet
	done   map[string]*types.Package
	broken []string
}

func (c *checker) check(p *listed) {
	complain := func(err error) {
		if p.ours() {
			c.broken = append(c.broken, err.Error())
		}
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(p.Dir, name)
		}
		file, err := parser.ParseFile(c.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			complain(err)
		}
		if file != nil {
			files = append(files, file)
		}
	}
	config := types.Config{
		Importer: importer(func(path string) (*types.Package, error) { return c.imported(p, path) }),
		Sizes:    types.SizesFor("gc", runtime.GOARCH), Error: complain, FakeImportC: true,
		IgnoreFuncBodies: !p.ours(),
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	path, _, _ := strings.Cut(p.ImportPath, " ") // a package as its test has it
	checked, err := config.Check(path, c.fset, files, nil)
	if checked == nil {
		complain(err)
		return
	}
	c.done[p.ImportPath] = checked
}

func (c *checker) imported(by *listed, path string) (*types.Package, error) {
	if other, is := by.ImportMap[path]; is {
		path = other
	}
	if p := c.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not there", path)
}

// importer is a function that is a [types.Importer].
type importer func(path string) (*types.Package, error)

// Import calls it.
func (i importer) Import(path string) (*types.Package, error) { return i(path) }
