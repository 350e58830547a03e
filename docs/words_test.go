package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// refused is a word of ours for what has a name in the field, and that name.
type refused struct {
	word    *regexp.Regexp
	instead string
}

func refusedWords() []refused {
	word := func(expression string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(` + expression + `)\b`) }
	return []refused{
		{word(`somebody|nobody|whoever`), "the administrator, another program, no agent: a thing with a name"},
		{word(`anew`), "again"},
		{word(`clusters? that lives?`), "existing cluster"},
		{word(`comes? through|came through`), "succeeds"},
		{word(`believes?|believed`), "trusts, caches"},
		{word(`(is|are|goes|gone|falls) silent`), "has stopped posting status, has not renewed its Lease, sends no heartbeats"},
		{word(`behind (it|them|that|this|each|rollout|the (next|last|first))`), "after"},
		{regexp.MustCompile(`(?m)(?:^|[.:] )What [^.?\n]* is [^.?\n]*\.`), "subject, verb, object"},
	}
}

// TestWords refuses words of ours for what has a name in the field. They are for the pages that users read.
func TestWords(t *testing.T) {
	words := refusedWords()
	for _, path := range withExamples(t) {
		if forUsers(path) {
			refuse(t, words, path, withoutCode(read(t, path)))
		}
	}
}

// forUsers is true for the pages that users read first, and for the reference that is made from the programs' strings and comments.
func forUsers(path string) bool {
	dir := filepath.Dir(path)
	if strings.HasPrefix(dir, "../examples") {
		return true
	}
	return slices.Contains([]string{".", "tutorials", "tasks", "concepts", "reference"}, dir)
}

func refuse(t *testing.T, words []refused, where, text string) {
	t.Helper()
	for _, r := range words {
		if m := r.word.FindString(text); m != "" {
			t.Errorf("%s: %q: write: %s", where, strings.TrimSpace(m), r.instead)
		}
	}
}

// unread is a file of test/lab, which has the user nobody of /etc/passwd.
const unread = "../test/lab/upstreamimage.go"

// TestWords_Code refuses the same words in the strings of the programs, and in comments of packages.
func TestWords_Code(t *testing.T) {
	files := slices.DeleteFunc(goFiles(t, ".."), func(path string) bool { return path == unread })
	if len(files) < 400 {
		t.Errorf("%d files were read, want those of the programs", len(files))
	}
	words := refusedWords()
	for _, path := range files {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		refuse(t, words, path, file.Doc.Text())
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
					refuse(t, words, fmt.Sprint(set.Position(n.Pos())), text)
				}
			}
			return true
		})
	}
}
