package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fieldPage describes every field of a document from the comments of its Go types, the outermost first.
func fieldPage(t *testing.T, title, intro, folder, root string) string {
	t.Helper()
	known := structs(t, folder)
	var page strings.Builder
	fmt.Fprintf(&page, "# %s\n\n%s\n", title, intro)
	types := []string{root}
	for i := 0; i < len(types); i++ { // what a field leads to has its place behind
		decl, ok := known[types[i]]
		if !ok {
			t.Fatalf("%s has no type %s", folder, types[i])
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n| field | type | |\n|---|---|---|\n", types[i], withExample(decl.doc))
		for _, name := range writeFields(&page, decl.fields, known) {
			if !slices.Contains(types, name) {
				types = append(types, name)
			}
		}
	}
	return page.String()
}

type structDecl struct {
	doc    string
	fields *ast.FieldList
}

func structs(t *testing.T, folder string) map[string]structDecl {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]structDecl{}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range decl.Specs {
				spec, ok := s.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if fields, ok := spec.Type.(*ast.StructType); ok {
					found[spec.Name.Name] = structDecl{decl.Doc.Text(), fields.Fields}
				}
			}
		}
	}
	return found
}

// writeFields puts the fields of an inlined type where it stands, and returns the types of fields.
func writeFields(page *strings.Builder, list *ast.FieldList, known map[string]structDecl) (types []string) {
	for _, f := range list.List {
		if f.Tag == nil {
			continue
		}
		name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		if name != "" {
			text := strings.ReplaceAll(oneLine(f.Doc.Text()), "|", "\\|")
			fmt.Fprintf(page, "| `%s` | %s | %s |\n", name, typeName(f.Type, known), text)
			if word := strings.Fields(typeName(f.Type, nil)); len(word) > 0 && known[word[len(word)-1]].fields != nil {
				types = append(types, word[len(word)-1])
			}
			continue
		}
		if inlined, ok := known[strings.TrimPrefix(typeName(f.Type, nil), "*")]; ok {
			types = append(types, writeFields(page, inlined.fields, known)...)
			continue
		}
		page.WriteString("| `apiVersion`, `kind` | string | |\n") // metav1.TypeMeta
	}
	return types
}

// typeName is a word for people, linked where the page describes the type.
func typeName(e ast.Expr, known map[string]structDecl) string {
	switch e := e.(type) {
	case *ast.Ident:
		if _, ok := known[e.Name]; ok {
			return fmt.Sprintf("[%s](#%s)", e.Name, strings.ToLower(e.Name))
		}
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X, known)
	case *ast.ArrayType:
		return "list of " + typeName(e.Elt, known)
	case *ast.MapType:
		return "map to " + typeName(e.Value, known)
	case *ast.SelectorExpr:
		return typeName(e.Sel, known)
	default:
		return ""
	}
}

// withExample is the comment of a type on one line, with its indented lines as a block of YAML.
func withExample(text string) string {
	before, rest, found := strings.Cut(text, "\n\n\t")
	if !found {
		return oneLine(text)
	}
	example, after, _ := strings.Cut(rest, "\n\n")
	example = strings.ReplaceAll(strings.TrimSpace(example), "\n\t", "\n")
	return strings.TrimSpace(oneLine(before) + "\n\n```yaml\n" + example + "\n```\n\n" + oneLine(after))
}

// oneLine leaves out what the comment says to generators only.
func oneLine(text string) string {
	text, _, _ = strings.Cut("\n"+text, "\n+")
	return strings.Join(strings.Fields(text), " ")
}
