package docs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a console block of a page: its language is console, sh, bash or shell, or it has none.
type block struct {
	path  string
	line  int      // of the fence
	lines []string // without the indentation of the fence
	mark  string   // the words of the comment directly above the fence
}

// mark says what stands for a block's commands: a run of them in this package, tests elsewhere, or a reason why nothing does.
type mark struct {
	kind   string            // run, run by, checked by, illustration
	folder string            // where commands run, from the root of the repository
	tests  map[string]string // packages of tests, from the root, by names of tests
}

const marksWanted = "write one of these directly above the fence: <!-- run --> or <!-- run in FOLDER -->, which TestBlocks_Run does; " +
	"<!-- run by TestX in FOLDER -->, whose strings have to have the commands; <!-- checked by TestX in FOLDER -->, which has to name the " +
	"page; " +
	"<!-- illustration: REASON -->"

// TestBlocks: each console block says what runs it, and that is true. Where a block shows no commands, its fence says text.
// Commands of the reference are made from the programs, whose examples TestExamples of cmd/ccmadm checks; decisions show what was then.
func TestBlocks(t *testing.T) {
	number := map[string]int{}
	reaches := reaches{}
	for _, b := range blocks(t) {
		switch {
		case strings.HasPrefix(b.path, "reference/ccmadm"):
			number["generated, examples checked by TestExamples in cmd/ccmadm"]++
			continue
		case strings.HasPrefix(b.path, "adr/"):
			number["illustration: decision"]++
			continue
		}
		where := fmt.Sprintf("%s:%d", b.path, b.line)
		m, err := parseMark(b.mark)
		if err != nil {
			t.Errorf("%s: %v: %s", where, err, marksWanted)
			continue
		}
		kind := m.kind
		switch m.kind {
		case "run by", "checked by":
			kind += " tests in " + strings.Join(slices.Compact(slices.Sorted(maps.Values(m.tests))), ", ")
			for _, problem := range claimProblems(t, reaches, b, m) {
				t.Errorf("%s: %s: %s: name the test that has it, or say <!-- illustration: REASON -->", where, b.mark, problem)
			}
		case "illustration":
			for _, claim := range regexp.MustCompile(`(Test\w+) in ([\w/]+)`).FindAllStringSubmatch(b.mark, -1) {
				if _, err := reaches.texts(claim[2], claim[1]); err != nil {
					t.Errorf("%s: %s: %v", where, b.mark, err)
				}
			}
		case "run":
			if len(commands(b)) == 0 {
				t.Errorf("%s: there is no command to run", where)
			}
		}
		number[kind]++
	}
	for _, kind := range slices.Sorted(maps.Keys(number)) {
		t.Logf("%4d %s", number[kind], kind)
	}
}

func parseMark(text string) (mark, error) {
	if text == "" {
		return mark{}, errors.New("nothing says what runs this block")
	}
	if reason, is := strings.CutPrefix(text, "illustration: "); is && len(strings.Fields(reason)) > 1 {
		return mark{kind: "illustration"}, nil
	}
	if m := regexp.MustCompile(`^run(?: in (\S+))?$`).FindStringSubmatch(text); m != nil {
		return mark{kind: "run", folder: cmp.Or(m[1], "docs/testdata/blocks")}, nil
	}
	for _, kind := range []string{"run by", "checked by"} {
		list, is := strings.CutPrefix(text, kind+" ")
		if !is {
			continue
		}
		m := mark{kind: kind, tests: map[string]string{}}
		for claim := range strings.SplitSeq(list, "; ") {
			names, folder, _ := strings.Cut(claim, " in ")
			for name := range strings.SplitSeq(names, ", ") {
				if !strings.HasPrefix(name, "Test") || folder == "" {
					return mark{}, fmt.Errorf("%q is no test in a folder", claim)
				}
				m.tests[name] = folder
			}
		}
		return m, nil
	}
	return mark{}, fmt.Errorf("%q is no mark", text)
}

// claimProblems says what of a block the tests of its mark do not have.
func claimProblems(t *testing.T, reaches reaches, b block, m mark) []string {
	t.Helper()
	var texts []string
	for name, folder := range m.tests {
		found, err := reaches.texts(folder, name)
		if err != nil {
			return []string{err.Error()}
		}
		texts = append(texts, found...)
	}
	if m.kind == "checked by" {
		if !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, filepath.Base(b.path)) }) {
			return []string{"no string there names the page"}
		}
		return nil
	}
	var problems []string
	number := 0
	for _, command := range commands(b) {
		number += len(parts(command.text))
		for _, part := range parts(command.text) {
			if missing := lacking(part, texts); missing != "" {
				problems = append(problems, fmt.Sprintf("%q: no string there has %q", strings.Join(part, " "), missing))
			}
		}
	}
	if number == 0 {
		problems = append(problems, "the block only shows")
	}
	return problems
}
