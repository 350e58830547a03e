//go:build linux

package main

import (
	"archive/zip"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// differences are lines about names that are new, gone, or say something else.
func differences(before, after map[string]string) []string {
	names := maps.Clone(before)
	maps.Copy(names, after)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := before[name]
		is, has := after[name]
		switch {
		case !had:
			lines = append(lines, strings.TrimSpace("+ "+name+" "+is))
		case !has:
			lines = append(lines, strings.TrimSpace("- "+name+" "+was))
		case was != is:
			lines = append(lines, fmt.Sprintf("~ %s %s -> %s", name, was, is))
		}
	}
	return lines
}

// unpack takes the product's Go files out of a module's archive, and returns the folder below dir where they are. Names in
// an archive begin with MODULE@VERSION.
func unpack(archive, dir string) (string, error) {
	r, err := zip.OpenReader(archive)
	if err != nil {
		return "", err
	}
	defer r.Close() //nolint:errcheck // it was read
	folder, err := os.MkdirTemp(dir, "module-")
	if err != nil {
		return "", err
	}
	for _, f := range r.File {
		_, name, _ := strings.Cut(f.Name, "@")
		_, name, _ = strings.Cut(name, "/")
		if filepath.Ext(name) != ".go" || !filepath.IsLocal(name) {
			continue
		}
		content, err := fs.ReadFile(r, f.Name)
		if err != nil {
			return "", err
		}
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return "", err
		}
	}
	return folder, nil
}

// eachFile parses the product's Go files below a folder.
func eachFile(dir string, visit func(path string, file *ast.File)) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry != nil && entry.IsDir() && slices.Contains([]string{"testdata", "testing"}, entry.Name()) {
				return filepath.SkipDir
			}
			return err
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(entry.Name(), "zz_generated") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		inner, err := filepath.Rel(dir, path)
		visit(inner, file)
		return err
	})
}

// gatesIn reads the feature gates that a library registers: the newest line of each, as upstream's tables have them.
func gatesIn(dir string) (map[string]string, error) {
	gates := map[string]string{}
	err := eachFile(dir, func(_ string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			pair, is := n.(*ast.KeyValueExpr)
			if !is {
				return true
			}
			specs, is := pair.Value.(*ast.CompositeLit)
			if name := lastName(pair.Key); is && name != "" && len(specs.Elts) > 0 {
				if text := gateOf(specs.Elts[len(specs.Elts)-1]); text != "" {
					gates[name] = text
				}
			}
			return true
		})
	})
	return gates, err
}

// lastName is Name of Name and of pkg.Name.
func lastName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

// gateOf is a line of featuregate.VersionedSpecs for people; empty: it is something else.
func gateOf(e ast.Expr) string {
	spec, is := e.(*ast.CompositeLit)
	if !is {
		return ""
	}
	said := map[string]string{}
	for _, field := range spec.Elts {
		if pair, is := field.(*ast.KeyValueExpr); is {
			said[lastName(pair.Key)] = lastName(pair.Value)
		}
	}
	if said["PreRelease"] == "" || said["Default"] == "" {
		return ""
	}
	text := said["PreRelease"] + ", default " + said["Default"]
	if said["LockToDefault"] == "true" {
		text += ", locked"
	}
	return text
}

// flagNamesIn reads the names of flags that a library adds to a set of flags.
func flagNamesIn(dir string) (map[string]string, error) {
	flags := map[string]string{}
	err := eachFile(dir, func(_ string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			method, is := call.Fun.(*ast.SelectorExpr)
			at := 0 // of the name among the arguments
			if is && strings.Contains(method.Sel.Name, "Var") {
				at = 1
			}
			if !is || len(call.Args) < at+3 || !strings.HasPrefix(strings.ToLower(lastName(method.X)), "f") {
				return true
			}
			if name, is := call.Args[at].(*ast.BasicLit); is && name.Kind == token.STRING {
				if text, err := strconv.Unquote(name.Value); err == nil && text != "" && !strings.ContainsAny(text, " %/") {
					flags["--"+text] = ""
				}
			}
			return true
		})
	})
	return flags, err
}

// fieldsIn reads the fields of structs that are for JSON, as folder.Type.field.
func fieldsIn(dir string) (map[string]string, error) {
	fields := map[string]string{}
	err := eachFile(dir, func(path string, file *ast.File) {
		folder := filepath.Dir(path)
		for _, d := range file.Decls {
			types, is := d.(*ast.GenDecl)
			if !is || types.Tok != token.TYPE || strings.Contains(folder, "applyconfigurations") {
				continue
			}
			for _, s := range types.Specs {
				spec, _ := s.(*ast.TypeSpec)
				structure, is := spec.Type.(*ast.StructType)
				if !is || !spec.Name.IsExported() {
					continue
				}
				for _, f := range structure.Fields.List {
					if name := jsonName(f); name != "" {
						fields[folder+"."+spec.Name.Name+"."+name] = ""
					}
				}
			}
		}
	})
	return fields, err
}

// jsonName is a field's name in JSON; empty: it has none.
func jsonName(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return strings.TrimPrefix(name, "-")
}
