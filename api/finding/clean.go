package finding

import (
	"regexp"
	"strings"
	"unicode"
)

// escape matches the sequences that a terminal acts on: CSI (colours, cursor), OSC (titles, links) and the short ones.
var escape = regexp.MustCompile("(?s)" +
	"(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]|" +
	"(?:\x1b[\\]PX^_]|[\u009d\u0090]).*?(?:\a|\x1b\\\\|\u009c|$)|" +
	"\x1b[ -/]*[0-~]")

// Clean makes text of a Node, a log or a cloud safe for a terminal, a file and a line of a table: escape sequences and
// control characters go, and so do those that change the direction of what is around them; line ends and tabs become
// a space, what is not UTF-8 becomes U+FFFD.
func Clean(text string) string {
	if !needsCleaning(text) {
		return text
	}
	text = escape.ReplaceAllString(strings.ToValidUTF8(text, "\ufffd"), "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || unicode.In(r, unicode.Zl, unicode.Zp):
			return ' '
		case unicode.In(r, unicode.Cc, unicode.Cf):
			return -1
		}
		return r
	}, text)
}

// needsCleaning looks for anything but printable ASCII, which nearly all text is.
func needsCleaning(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) >= 0
}
