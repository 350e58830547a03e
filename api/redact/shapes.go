package redact

import (
	"regexp"
	"strings"
)

// How a credential stands beside its name where nothing assigns it.
var (
	// element is one of XML, as in what vSphere is sent.
	element = regexp.MustCompile(`(?i)(<[\w:.-]*` + secretWord + `(?:[ \t][^<>]*)?>)([^<]+)`)
	// together is a variable, or an argument, whose name and value are one line.
	together = regexp.MustCompile(`(?i)(\bname\\*["']?[ \t]*[:=][ \t]*\\*["']?[\w.-]*` + secretWord + `\\*["']?,[ \t]*` +
		`\\*["']?value\\*["']?[ \t]*[:=][ \t]*)` +
		`(\\*"[^"]*"?|'[^']*'?|[^\s,}"']+)`)
	// neighbor is the configuration of a router, quoted that of another one, with a blank between name and value.
	neighbor = regexp.MustCompile(`(?i)(\bneighbor[ \t]+\S+[ \t]+password[ \t]+(?:[0-9][ \t]+)?)(\S.*)`)
	quoted   = regexp.MustCompile(`(?i)(\b(?:password|passwd|passphrase|psk|authentication[ -]key)[ \t]+)(\\*"[^"\n]+"|'[^'\n]+')`)
	// query is a parameter of a URL, typed a password that a program takes of its command line.
	query = regexp.MustCompile(`(?i)([?&](?:key|apikey)=)([^\s&"'<>]+)`)
	typed = regexp.MustCompile(`(\bsshpass[ \t]+-p[ \t]*)(\S+)`)

	userinfo = regexp.MustCompile(`(:(?:\\*/){2})([^/\\\s@:"'<>]*)(:?)[^/\s"'<>]*@`)
	// slashed is a password with a slash in it, which would have to be escaped and is not.
	slashed = regexp.MustCompile(`(:(?:\\*/){2}[^/\\\s@:"'<>]*:)([^\s"'<>@]*)@`)
	port    = regexp.MustCompile(`^[0-9]*(?:[/?#,\\]|$)`)
	// escaped is a URL in another one, schemeless what a proxy's variable and MySQL have without a scheme.
	escaped    = regexp.MustCompile(`(?i)(%3A%2F%2F[^\s&"'%]*%3A)([^\s&"']*?)(%40)`)
	schemeless = regexp.MustCompile(`(?i)(proxy\\*["']?[ \t]*[=:][ \t]*\\*["']?[^\s:/@"']+:)[^\s/@"']+@|` +
		`((?:^|[=: \t"'])[^\s:/@"'=]+:)[^\s@"']+@(tcp|unix)\(`)
)

// words are the patterns of names that assign nothing, of those that may be in a text.
func words(text string) []*regexp.Regexp {
	var list []*regexp.Regexp
	if strings.Contains(text, "<") {
		list = append(list, element)
	}
	if strings.Contains(text, "value") {
		list = append(list, together)
	}
	return append(list, neighbor, quoted, query, typed)
}

// beforeHost takes out of URLs what is before the host.
func beforeHost(text string) string {
	if strings.Contains(text, "%40") {
		text = escaped.ReplaceAllString(text, "${1}"+Mark+"${3}")
	}
	if !strings.Contains(text, "@") {
		return text
	}
	if strings.Contains(text, "/") {
		text = userinfo.ReplaceAllStringFunc(text, func(match string) string {
			parts := userinfo.FindStringSubmatch(match)
			if strings.HasSuffix(match, hidden+"@") {
				return match
			}
			if parts[3] == "" {
				return parts[1] + Mark + "@"
			}
			return parts[1] + parts[2] + ":" + Mark + "@"
		})
		text = slashed.ReplaceAllStringFunc(text, func(match string) string {
			parts := slashed.FindStringSubmatch(match)
			if port.MatchString(parts[2]) || strings.Contains(parts[2], Mark) || strings.Contains(parts[2], "://") ||
				strings.HasSuffix(parts[2], hidden) {
				return match
			}
			return parts[1] + Mark + "@"
		})
	}
	return schemeless.ReplaceAllStringFunc(text, func(match string) string {
		parts := schemeless.FindStringSubmatch(match)
		switch {
		case strings.Contains(match, Mark) || strings.Contains(match, hidden):
			return match
		case parts[1] != "":
			return parts[1] + Mark + "@"
		}
		return parts[2] + Mark + "@" + parts[3] + "("
	})
}

// random takes out words that look as drawn by lot: as long as a key of a cloud, with letters of both kinds and numbers.
// Names, paths and checksums have no capitals, names of functions no numbers.
func random(text string) string {
	var out strings.Builder
	start, upper, lower, digits, kept := 0, 0, 0, 0, 0
	for i := 0; i <= len(text); i++ {
		var c byte
		if i < len(text) {
			c = text[i]
		}
		switch {
		case c >= 'A' && c <= 'Z':
			upper++
		case c >= 'a' && c <= 'z':
			lower++
		case c >= '0' && c <= '9':
			digits++
		case c == '+' || c == '/' || c == '_' || c == '-':
		default:
			if i-start >= 40 && upper >= 5 && lower >= 5 && digits >= 3 {
				out.WriteString(text[kept:start] + Mark)
				kept = i
			}
			start, upper, lower, digits = i+1, 0, 0, 0
		}
	}
	if kept == 0 {
		return text
	}
	return out.String() + text[kept:]
}
