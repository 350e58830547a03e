package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestCommands: each command of ccmadm in a block or a span of code has a page in the reference, and its flags are there.
func TestCommands(t *testing.T) {
	command := regexp.MustCompile("\\bccmadm ([^`\n|;&#>)]*)")
	commands, flags := 0, 0
	flagName := regexp.MustCompile(`(?:^|\s)(--?[a-z][a-z-]*)`)
	for _, path := range withExamples(t) {
		if !forUsers(path) {
			continue
		}
		code := strings.ReplaceAll(onlyCode(read(t, path)), "\\\n", " ")
		for _, m := range command.FindAllStringSubmatch(code, -1) {
			own, _, _ := strings.Cut(m[1]+" ", " -- ") // flags of kubeadm follow
			page, found := referenceOf(strings.Fields(own))
			if !found {
				continue // prose, or an output
			}
			commands++
			for _, f := range flagName.FindAllStringSubmatch(own, -1) {
				flags++
				if !regexp.MustCompile(regexp.QuoteMeta(f[1]) + `\b`).MatchString(page) {
					t.Errorf("%s: ccmadm %s: there is no flag %s", path, strings.TrimSpace(own), f[1])
				}
			}
		}
	}
	if commands < 300 || flags < 200 {
		t.Errorf("%d commands and %d flags were looked at: those of many pages are not found", commands, flags)
	}
}

// referenceOf returns the page of the command that the words begin with.
func referenceOf(words []string) (string, bool) {
	page, found, name := "", false, "ccmadm"
	for _, word := range words {
		name += "_" + word
		data, err := os.ReadFile("reference/" + name + ".md")
		if err != nil {
			break
		}
		page, found = string(data), true
	}
	return page, found
}

// onlyCode is what withoutCode leaves out, a line for each span.
func onlyCode(text string) string {
	b := &strings.Builder{}
	block := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			block = !block
		case block:
			b.WriteString(line)
		default:
			for i, part := range strings.Split(line, "`") {
				if i%2 == 1 {
					b.WriteString(part + "\n")
				}
			}
		}
	}
	return b.String()
}
