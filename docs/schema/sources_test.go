package schema_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sources are what reflection does not know of types: comments, and the constants of a type. The key is the package's
// folder and the type's name.
type sources map[string]*source

type source struct {
	doc    string
	fields map[string]string // comments by name
	values []string          // of the constants of a string type
}

// of is never nil. Types of Kubernetes bring their comments along.
func (s sources) of(t reflect.Type) *source {
	kubernetes, ok := reflect.New(t).Interface().(interface{ SwaggerDoc() map[string]string })
	if ok && strings.HasPrefix(t.PkgPath(), "k8s.io/") { // ours inherit the method from TypeMeta
		return &source{doc: kubernetes.SwaggerDoc()[""], fields: byGoName(t, kubernetes.SwaggerDoc())}
	}
	if found := s[filepath.Base(t.PkgPath())+"."+t.Name()]; found != nil {
		return found
	}
	return &source{}
}

// byGoName turns the names in JSON into those in Go.
func byGoName(t reflect.Type, docs map[string]string) map[string]string {
	fields := map[string]string{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[f.Name] = docs[name]
	}
	return fields
}

func (s sources) at(key string) *source {
	if s[key] == nil {
		s[key] = &source{fields: map[string]string{}}
	}
	return s[key]
}

func readSources(t *testing.T, folders ...string) sources {
	t.Helper()
	s := sources{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			s.readFile(filepath.Base(folder), file)
		}
	}
	return s
}

func (s sources) readFile(folder string, file *ast.File) {
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				s.readType(folder, decl, spec)
			case *ast.ValueSpec:
				s.readConstant(folder, decl, spec)
			}
		}
	}
}

func (s sources) readType(folder string, decl *ast.GenDecl, spec *ast.TypeSpec) {
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	entry := s.at(folder + "." + spec.Name.Name)
	entry.doc = decl.Doc.Text()
	for _, f := range fields.Fields.List {
		for _, name := range f.Names {
			entry.fields[name.Name] = f.Doc.Text()
		}
	}
}

func (s sources) readConstant(folder string, decl *ast.GenDecl, spec *ast.ValueSpec) {
	of, ok := spec.Type.(*ast.Ident)
	if decl.Tok != token.CONST || !ok {
		return
	}
	for _, value := range spec.Values {
		literal, ok := value.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		if text, err := strconv.Unquote(literal.Value); err == nil {
			entry := s.at(folder + "." + of.Name)
			if !slices.Contains(entry.values, text) {
				entry.values = append(entry.values, text)
			}
		}
	}
}
