// Package redact takes credentials out of what leaves a cluster: snapshots of the doctor, and support bundles.
//
// Start at [Text], which goes by patterns; [Document] goes by the types of Kubernetes objects and of kubeadm's and
// kubeconfig files first, [Keys] keeps no value at all. None of them knows a credential that stands bare in a sentence:
// what is to be sent is to be looked at.
//
// Reads and writes nothing but what it is given. A second time changes nothing.
package redact

import (
	"regexp"
	"slices"
	"strings"
)

// Mark stands where a credential was.
const Mark = "(redacted)"

// hidden stands in kubeadm's configuration, with the half of a token that is none.
const hidden = "<hidden>"

// secretWord ends a name whose value is a credential. What begins it does not matter where the word says enough; short
// ones must stand alone, or behind a dash or an underscore. A key is one by what is before it.
const secretWord = `(?:password|passwd|passphrase|passcode|pass|pwd|psk|(?:\b|_)(?:auth|pat|pw|sig)|signature|token|secret|` +
	`authorization|credentials?|creds?|cookie|(?:api|access|private|client|secret|certificate|encryption|signing|shared|` +
	`account|ssh|auth|host|master|session|storage|license|deploy|hmac|aes)[-_. ]?key(?:[-_]?id)?)` +
	`(?:[-_.]?(?:json|data|value|text|base64|b64|string))?`

var (
	// wholeLine is a line of a configuration file: its value has blanks in it. named stands anywhere, and flagged is an
	// argument whose value comes after a blank.
	wholeLine = regexp.MustCompile(`(?im)^([ \t]*["']?[\w.-]*` + secretWord + `["']?[ \t]*=[ \t]*)(\S.*)$`)
	named     = regexp.MustCompile(`(?i)(\w*` + secretWord + `\\?["']?[ \t]*[=:][ \t]*)(?:(?:bearer|basic)[ \t]+)?` +
		`(\\?"[^"]*"?|\\?'[^']*'?|[^\s"',&]+)`)
	// header is one of HTTP, in whatever form a program logs it: its value has a scheme before the secret, or several
	// parts. listed is what a name, or its plural, has in brackets or braces.
	header = regexp.MustCompile(`(?i)((?:(?:proxy-)?authorization|(?:set-)?cookie|x-[a-z-]*token)\\?["']?[ \t]*[=:][ \t]*)` +
		`(\[[^\]\n]*\]?|\\?"[^"\n]*"?|[^"'\n]+)`)
	listed = regexp.MustCompile(`(?i)(\w*` + secretWord + `s?\\?["']?[ \t]*[=:][ \t]*)` +
		`(\[(?:\]|[^\]{\n][^\]\n]*\]?)|\{[^{}\n]*(?:\{[^{}\n]*\}[^{}\n]*)*\}?)`)
	// below is a name whose value is on the lines after it, as long as these are further in.
	below = regexp.MustCompile(`(?i)` + secretWord + `["']?:[ \t]*[|>][-+0-9]*[ \t]*$`)
	// pair is a variable or an argument of YAML: its name says whether the value on the next line is a credential.
	pair = regexp.MustCompile(`(?i)^[-+ \t]*name:[ \t]*["']?([\w.-]+)["']?[ \t]*$`)
	// valued is that line, also of a difference.
	valued  = regexp.MustCompile(`^([-+]?[ \t]*value:[ \t]*)(\S.*)$`)
	flagged = regexp.MustCompile(`(?i)(--?[\w-]*(?:` + secretWord + `|key)[ \t]+)("[^"]*"?|'[^']*'?|[^\s"'-]\S*)`)
	account = regexp.MustCompile(`((?:^|[ \t])(?:-u|--user)[ =])[^\s:]+:\S+`)
	// block is PEM, also of which the end is cut off; headless is the end of one whose beginning is elsewhere.
	block    = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]+-----(?:[\sA-Za-z0-9+/=:,\\-]*?-----END [A-Z0-9 ]+-----|[\sA-Za-z0-9+/=:,\\-]*)`)
	headless = regexp.MustCompile(`(?m)(?:^[ \t]*[A-Za-z0-9+/=]+[ \t]*\n)*^[ \t]*-----END [A-Z0-9 ]+-----`)
	// formed is what is a credential by its form: JSON web tokens, and those with a prefix of their issuer's (prefixes).
	formed = regexp.MustCompile(`eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)*|\b(?:AKIA|ASIA)[0-9A-Z]{16}|\bAIza[\w-]{35}|\bgh[pousr]_\w{20,}|` +
		`\bgithub_pat_\w{20,}|\bglpat-[\w-]{20,}|\bdop_v1_[0-9a-f]{32,}|\bxox[abpr]-[\w-]{10,}|\bhvs\.[\w-]{20,}|\bya29\.[\w-]{20,}|` +
		`(?i:bearer) [\w.~+/-]{8,}=*`)
	// base64 is long, or a line of a PEM block, which may have a time before it.
	base64    = regexp.MustCompile(`[A-Za-z0-9+/]{100,}={0,2}|(^[ \t]*)[A-Za-z0-9+/]{40,}={0,2}[ \t]*$|([ \t])[A-Za-z0-9+/]{60,}={0,2}[ \t]*$`)
	userinfo  = regexp.MustCompile(`(://)([^/\s@:"'<>]*)(:?)[^/\s"'<>]*@`)
	bootstrap = regexp.MustCompile(`\b([a-z0-9]{6})\.[a-z0-9]{16}\b`)

	secretKey  = regexp.MustCompile(`(?i)` + secretWord + `$`)
	secretFlag = regexp.MustCompile(`(?i)^--?[\w-]*(?:` + secretWord + `|key)$`)
	// innocent are words of the language that end as a name of a password does.
	innocent = regexp.MustCompile(`(?i)(?:by|com|tres|sur|under|over|im)pass\\?["']?[ \t=:]*$`)
)

// Text takes credentials out of a text: what a name says to be one, what has the form of one, and what a URL has before
// its host. A value that is a word of a flag stays.
func Text(text string) string {
	if strings.Contains(text, "-----BEGIN ") {
		text = block.ReplaceAllString(text, Mark)
	}
	if strings.Contains(text, "-----END ") {
		text = headless.ReplaceAllString(text, Mark)
	}
	if strings.Contains(text, "\n") && mayName(text) {
		text = furtherLines(text)
	}
	if !strings.Contains(text, "\n") {
		return line(text)
	}
	var out strings.Builder
	out.Grow(len(text))
	for whole := range strings.Lines(text) {
		content := strings.TrimRight(whole, "\r\n")
		out.WriteString(line(content) + whole[len(content):])
	}
	return out.String()
}

// line runs only the patterns that may be in a line: each of them takes a microsecond for ten bytes.
func line(text string) string {
	if longRun(text) >= 40 {
		text = base64.ReplaceAllString(text, "$1$2"+Mark)
	}
	if mayBeFormed(text) {
		text = formed.ReplaceAllString(text, Mark)
	}
	if strings.Contains(text, "Environment=") {
		text = variables(text)
	}
	if mayName(text) {
		text = values(text)
	}
	if strings.Contains(text, "-u") { // and so --user
		text = account.ReplaceAllString(text, "${1}"+Mark)
	}
	if strings.Contains(text, "://") && strings.Contains(text, "@") {
		text = beforeHost(text)
	}
	if mayBeBootstrap(text) {
		text = bootstrap.ReplaceAllString(text, "$1."+Mark)
	}
	return text
}

// values takes out what stands behind a name.
func values(text string) string {
	for _, pattern := range []*regexp.Regexp{header, listed} {
		text = pattern.ReplaceAllStringFunc(text, func(match string) string {
			parts := pattern.FindStringSubmatch(match)
			if strings.HasPrefix(parts[2], Mark) || innocent.MatchString(parts[1]) {
				return match
			}
			return parts[1] + Mark
		})
	}
	for _, pattern := range []*regexp.Regexp{wholeLine, named, flagged} {
		text = pattern.ReplaceAllStringFunc(text, func(match string) string {
			parts := pattern.FindStringSubmatch(match)
			if harmless(parts[2]) || innocent.MatchString(parts[1]) {
				return match
			}
			return parts[1] + Mark
		})
	}
	return text
}

func beforeHost(text string) string {
	return userinfo.ReplaceAllStringFunc(text, func(match string) string {
		parts := userinfo.FindStringSubmatch(match)
		if strings.HasSuffix(match, hidden+"@") {
			return match
		}
		if parts[3] == "" {
			return parts[1] + Mark + "@"
		}
		return parts[1] + parts[2] + ":" + Mark + "@"
	})
}

func harmless(value string) bool {
	value = strings.Trim(value, `\"'`)
	return slices.Contains([]string{"", "true", "false"}, value) || strings.HasPrefix(value, Mark) || strings.HasSuffix(value, hidden)
}

// Args takes credentials out of a command line in place, those too that are an argument of their own.
func Args(args []string) {
	for i := range args {
		args[i] = Text(args[i])
		if i > 0 && isSecretFlag(args[i-1]) {
			args[i] = Mark
		}
	}
}

// Secret tells whether a field or a flag of this name holds a credential.
func Secret(name string) bool { return mayName(name) && namesSecret(name) }

// Carries tells whether the value of a variable or an argument of this name is a credential, or has one in it. A path
// only says where one is.
func Carries(name, value string) bool {
	return Secret(name) && !harmless(value) && !strings.HasPrefix(value, "/") || Text(value) != value
}

// isSecretFlag tells whether the argument behind this one is a credential.
func isSecretFlag(arg string) bool { return strings.HasPrefix(arg, "-") && namesFlag(arg) }

func namesSecret(name string) bool { return secretKey.MatchString(name) && !innocent.MatchString(name) }

func namesFlag(arg string) bool { return secretFlag.MatchString(arg) && !innocent.MatchString(arg) }
