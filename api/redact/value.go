package redact

import (
	"encoding/json"
	"regexp"
	"strings"
)

// stringOf is one of JSON or of Go, with its quotes.
var stringOf = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// inQuotes goes through strings that have a text in them, with lines, quotes and names of its own.
func inQuotes(text string) string {
	return stringOf.ReplaceAllStringFunc(text, func(match string) string {
		if !strings.ContainsAny(match, `\ '<`) || !mayName(match) && !strings.Contains(match, `\u`) {
			return match
		}
		var content string
		if json.Unmarshal([]byte(match), &content) != nil {
			return match
		}
		redacted := Text(content)
		if redacted == content {
			return match
		}
		var out strings.Builder
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		if encoder.Encode(redacted) != nil {
			return `"` + Mark + `"`
		}
		return strings.TrimSuffix(out.String(), "\n")
	})
}

// named takes out the values that stand behind a name on the same line, wherever the name stands.
func named(text string) string {
	var out strings.Builder
	for {
		at := name.FindStringIndex(text)
		if at == nil {
			return out.String() + text
		}
		end := at[1] + valueLength(text[at[1]:])
		value := text[at[1]:end]
		out.WriteString(text[:at[1]])
		if value == "" || harmless(value) || innocent.MatchString(text[at[0]:at[1]]) {
			out.WriteString(value)
		} else {
			out.WriteString(Mark)
		}
		text = text[end:]
	}
}

// valueLength is how much of a text belongs to the value that it begins with.
func valueLength(text string) int {
	if quoted, end := quotedLength(text); quoted {
		return end
	}
	if strings.HasPrefix(text, Mark) {
		return len(Mark)
	}
	end := unquoted(text)
	for end > 0 && end < len(text) && text[end] == ',' {
		next := unquoted(text[end+1:]) // a value with a comma in it, or the next name
		if next == 0 || strings.ContainsAny(text[end+1:end+1+next], "=:{}[]()") {
			break
		}
		end += 1 + next
	}
	return end
}

// unquoted is the length of a value without quotes.
func unquoted(text string) int {
	if end := strings.IndexAny(text, " \t\r\n\f\v\x00\"',&"); end >= 0 {
		return end
	}
	return len(text)
}

// quotedLength tells whether a text begins with a quote, and where what it opens is closed: at its end, where it is not.
// The quote may be escaped, as in JSON within JSON: what closes it is so as often, what is in the value more often.
func quotedLength(text string) (quoted bool, end int) {
	escapes := len(text) - len(strings.TrimLeft(text, `\`))
	if escapes == len(text) || text[escapes] != '"' && text[escapes] != '\'' {
		return false, 0
	}
	if end, closed := closing(text[escapes+1:], text[escapes], escapes); closed {
		return true, escapes + 1 + end
	}
	return true, len(text)
}

// closing looks for the quote that ends a value, and returns where the text behind it begins. Two single quotes are one
// in a value of YAML.
func closing(text string, quote byte, escapes int) (end int, closed bool) {
	row := 0 // of backslashes
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			row++
			continue
		case text[i] == quote && quote == '\'' && escapes == 0 && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote && (row%(2*(escapes+1)) == escapes || quote == '\'' && escapes == 0):
			return i + 1, true
		}
		row = 0
	}
	return 0, false
}
