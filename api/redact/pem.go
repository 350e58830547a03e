package redact

import (
	"regexp"
	"strings"
)

const (
	pemBegin, pemEnd = "-----BEGIN ", "-----END "
	// longestPEM is what lies between the two at most, with whatever is before each line: a key of 16,384 bits has 13 KiB.
	longestPEM = 24 << 10
)

var (
	// block is PEM, also of which the end is cut off; headless is the end of one whose beginning is elsewhere.
	block    = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]+-----(?:[\sA-Za-z0-9+/=:,\\-]*?-----END [A-Z0-9 ]+-----|[\sA-Za-z0-9+/=:,\\-]*)`)
	headless = regexp.MustCompile(`(?m)(?:^[ \t]*[A-Za-z0-9+/=]+[ \t]*\n)*^[ \t]*-----END [A-Z0-9 ]+-----`)
	// inForm is a block within a URL or a form.
	inForm = regexp.MustCompile(`-----BEGIN(?:%20|\+)[^\s&"']*`)
)

// pem takes out blocks of PEM, whatever a log, a quotation or a difference has before each of their lines.
func pem(text string) string {
	if strings.Contains(text, pemBegin) {
		text = block.ReplaceAllString(linedPEM(text), Mark)
	}
	if strings.Contains(text, pemEnd) {
		text = headless.ReplaceAllString(text, Mark)
	}
	if strings.Contains(text, "-----BEGIN%") || strings.Contains(text, "-----BEGIN+") {
		text = inForm.ReplaceAllString(text, Mark)
	}
	return text
}

// linedPEM takes out everything between a beginning and the end that follows it.
func linedPEM(text string) string {
	var out strings.Builder
	for {
		begin := strings.Index(text, pemBegin)
		if begin < 0 {
			return out.String() + text
		}
		behind := begin + len(pemBegin)
		reach := text[behind:min(len(text), behind+longestPEM)]
		if again := strings.Index(reach, pemBegin); again >= 0 {
			reach = reach[:again]
		}
		end := strings.Index(reach, pemEnd)
		last := -1
		if end >= 0 {
			last = strings.Index(reach[end+len(pemEnd):], "-----")
		}
		if last < 0 { // its end is cut off
			out.WriteString(text[:behind])
			text = text[behind:]
			continue
		}
		out.WriteString(text[:begin] + Mark)
		text = text[behind+end+len(pemEnd)+last+len("-----"):]
	}
}
