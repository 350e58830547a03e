package docs

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// blocks are the console blocks of the pages, of README.md and of the examples.
func blocks(t *testing.T) []block {
	t.Helper()
	var list []block
	for _, path := range append(withExamples(t), "../README.md") {
		list = append(list, blocksOf(path, read(t, path))...)
	}
	return list
}

func blocksOf(path, text string) []block {
	fence := regexp.MustCompile("^( *)```(.*)$")
	var list []block
	var b *block
	open, indent, above := false, "", ""
	for i, line := range strings.Split(text, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case m != nil && open:
			open, b = false, nil
		case m != nil:
			open, indent = true, m[1]
			language, _, _ := strings.Cut(m[2], " ")
			if !slices.Contains([]string{"", "console", "sh", "bash", "shell"}, language) {
				break
			}
			list = append(list, block{path: path, line: i + 1})
			b = &list[len(list)-1]
			if comment, is := strings.CutPrefix(above, "<!-- "); is && strings.HasSuffix(comment, " -->") {
				b.mark = strings.TrimSuffix(comment, " -->")
			}
		case b != nil:
			b.lines = append(b.lines, strings.TrimPrefix(line, indent))
		}
		above = strings.TrimSpace(line)
	}
	return list
}

// command is one of a block, with the lines that the block shows as its output.
type command struct {
	text   string
	output []string
}

// commands are those of a block. Where its first line begins with a prompt, lines without one are output; elsewhere all lines are
// commands, but comments. Prompts are `$ `, `# ` and those with a machine's name, `cp1# `.
func commands(b block) []command {
	prompt := regexp.MustCompile(`^(?:[\w]+[#$]|[#$]) `)
	named := regexp.MustCompile(`^\w+[#$] `)
	prompted := len(b.lines) > 0 && prompt.MatchString(b.lines[0])
	var list []command
	end := "" // of a here document
	more := false
	for _, line := range b.lines {
		mark := named
		if prompted {
			mark = prompt
		}
		text := mark.ReplaceAllString(line, "")
		last := len(list) - 1
		switch {
		case more || end != "":
			list[last].text += "\n" + line
			if strings.TrimSpace(line) == end {
				end = ""
			}
		case prompted && text == line:
			list[last].output = append(list[last].output, line)
			continue
		case strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#"):
			continue
		default:
			list = append(list, command{text: text})
		}
		if m := regexp.MustCompile(`<<-?'?(\w+)'?`).FindStringSubmatch(text); m != nil && end == "" {
			end = m[1]
		}
		more = strings.HasSuffix(line, `\`)
	}
	return list
}

// parts are the words of each program that a command runs, without comments, here documents, what a shell does itself, and what only
// shows: filters, and what kubectl gets and describes.
func parts(text string) [][]string {
	lines := strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n")
	line, _, _ := strings.Cut(lines[0], " # ")
	line = regexp.MustCompile(`'[^']*'|"[^"]*"`).ReplaceAllStringFunc(line, func(s string) string {
		return strings.Map(func(r rune) rune {
			if strings.ContainsRune("|;&", r) {
				return '_'
			}
			return r
		}, s)
	})
	var list [][]string
	for _, part := range regexp.MustCompile(`\|\||&&|[|;]`).Split(line, -1) {
		words := strings.Fields(part)
		shell := []string{"sudo", "while", "for", "do"}
		for len(words) > 0 && (strings.Contains(words[0], "=") || slices.Contains(shell, words[0])) {
			words = words[1:]
		}
		none := []string{"export", "echo", "less", "cat", "done", "sleep", "grep", "jq", "head", "xargs"}
		reads := len(words) > 0 && words[0] == "kubectl" &&
			slices.ContainsFunc(words, func(w string) bool { return slices.Contains([]string{"get", "get-contexts", "describe"}, w) })
		if len(words) > 0 && !slices.Contains(none, words[0]) && !reads {
			list = append(list, words)
		}
	}
	return list
}

// lacking returns which words of a command no text of tests has together: of ccmadm the subcommands and flags, of kubectl the verb
// and the resource, of others a subcommand. Values are the page's own.
func lacking(words, texts []string) string {
	want := []string{words[0]}
	switch {
	case words[0] == "ccmadm":
		want = wordsOfOurs(words)
	case words[0] == "kubectl":
		want = wordsOfKubectl(words)
	case len(words) > 1 && regexp.MustCompile(`^[a-z][a-z-]+$`).MatchString(words[1]):
		want = slices.Clone(words[:2])
	}
	if words[0] != "ccmadm" {
		for _, word := range words {
			if strings.HasPrefix(word, "ccmadm-") && !strings.HasSuffix(word, "-") && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz-.") == "" {
				want = append(want, word) // names of ours
			}
		}
	}
	least := want
	for _, text := range texts {
		missing := slices.DeleteFunc(slices.Clone(want), func(w string) bool { return hasAnyForm(text, w) })
		if len(missing) < len(least) {
			least = missing
		}
	}
	return strings.Join(least, ", ")
}

// wordsOfOurs are the name of a command of ccmadm with those of its subcommands, and its flags.
func wordsOfOurs(words []string) []string {
	name := words[0]
	for _, word := range words[1:] {
		if _, err := os.Stat("reference/" + strings.ReplaceAll(name+" "+word, " ", "_") + ".md"); err != nil {
			break
		}
		name += " " + word
	}
	want := []string{name}
	forms := map[string]string{"-f": "-f|--filename", "-o": "-o|--output"}
	for _, word := range words {
		flagName, _, _ := strings.Cut(word, "=")
		if flagName == "--" {
			break
		}
		// Tests run the command that ccmadm init has printed, with these.
		printed := name == "ccmadm join" || strings.HasPrefix(name, "ccmadm join phase")
		if printed && (flagName == "--token" || flagName == "--discovery-token-ca-cert-hash") {
			continue
		}
		if len(flagName) > 1 && flagName[0] == '-' {
			want = append(want, cmp.Or(forms[flagName], flagName))
		}
	}
	return want
}

// wordsOfKubectl are the verb and the resource. Helpers of tests write kubectl itself.
func wordsOfKubectl(words []string) []string {
	verbs := []string{
		"annotate", "apply", "config", "create", "delete", "describe", "drain", "expose", "get", "label", "logs", "patch",
		"rollout", "scale", "uncordon",
	}
	verb := slices.IndexFunc(words, func(w string) bool { return slices.Contains(verbs, w) })
	if verb < 0 {
		return words[:1]
	}
	want := []string{words[verb]}
	for _, word := range words[verb+1:] {
		resource, name, _ := strings.Cut(word, "/")
		switch {
		case resource == "status" || resource == "restart": // of rollout
			want = append(want, resource)
			continue
		case resource != "-n" && regexp.MustCompile(`^[a-z][a-z,.]+$`).MatchString(resource):
			resource, _, _ = strings.Cut(resource, ",")
			singular := strings.TrimSuffix(resource, "s")
			want = append(want, singular+"|"+singular+"s|"+singular+"es")
			if regexp.MustCompile(`^[a-z-]{6,}$`).MatchString(name) {
				want = append(want, name)
			}
		}
		break
	}
	return want
}

// hasAnyForm is true where a text has one of the forms between bars. The words of a form stand side by side, or the last of them are
// lines of their own, as tests that put a command together have them; ccmadm itself may come from a helper then.
func hasAnyForm(text, forms string) bool {
	lines := strings.Split(text, "\n")
	for form := range strings.SplitSeq(forms, "|") {
		words := strings.Fields(form)
		for first := range min(2, len(words)) {
			if first == 1 && words[0] != "ccmadm" {
				break
			}
			for last := len(words); last > first; last-- {
				alone := last-first == 1 && first == 1 // a subcommand without ccmadm: a line, or nothing
				found := hasWords(text, strings.Join(words[first:last], " "))
				if alone {
					found = slices.ContainsFunc(lines, func(l string) bool { return l == words[first] || strings.HasPrefix(l, words[first]+" --") })
				}
				if found && !slices.ContainsFunc(words[last:], func(w string) bool { return !slices.Contains(lines, w) }) {
					return true
				}
			}
		}
	}
	return false
}

// hasWords is true where a text has these words, and not only as a part of others.
func hasWords(text, words string) bool {
	for {
		i := strings.Index(text, words)
		if i < 0 {
			return false
		}
		end := i + len(words)
		if (i == 0 || !wordByte(text[i-1])) && (end == len(text) || !wordByte(text[end])) {
			return true
		}
		text = text[end:]
	}
}

func wordByte(b byte) bool {
	return b == '-' || b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}
