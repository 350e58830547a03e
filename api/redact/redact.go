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
// ones must stand alone, or behind a dash or an underscore. A key is one by what is before it. A number or a word of form
// or age may follow: password_2, secretId, TOKEN_OLD.
const secretWord = `(?:password|passwd|passwort|passphrase|passcode|pass|pwd|psk|(?:\b|_)(?:auth|pat|pw|sig|dsn|jwt|bearer)|basicauth|` +
	`signature|token|secret|authorization|credentials?|creds?|cookie|dockerconfigjson|dockercfg|privkey|conn(?:ection)?[-_ ]?str(?:ing)?|` +
	`tcp[-_]?md5(?:sig)?|md5sig|` +
	`(?:api|access|private|client|secret|certificate|encryption|signing|shared|account|ssh|auth|host|master|session|storage|` +
	`license|deploy|hmac|aes|heartbeat|subscription|bgp)[-_. ]?key)` +
	`(?:[-_.]?(?:json|data|value|text|base64|b64|string|hash|plain|base|old|new|previous|id|v?[0-9]{1,3})){0,3}`

// innocentWord are words of the language that end as a name of a password does.
const innocentWord = `(?:by|com|tres|sur|under|over|im)pass`

// Patterns for the schemas of programs that cannot ask [Carries]: of an argument whose flag is named as one with a credential, and of those
// whose value is none for all that, but a path, a switch, or a variable of the pod.
const (
	SecretArgument   = `(?i)^--[^=]*` + secretWord + `=`
	HarmlessArgument = `(?i)^[^=]*(?:=(?:true|false|/.*|\$\(.*\))?$|` + innocentWord + `=)`
)

// assigns stands between a name and its value, with the end of the name's quotes, escaped as often as may be.
const assigns = `\\*["']?[ \t]*(?:[=:]{1,2}>?|->)[ \t]*`

var (
	// wholeLine is a line of a configuration file: its value has blanks in it. One of YAML has quotes or brackets, which
	// say where it ends, or goes as far as the line. name stands anywhere, and flagged is an argument whose value comes
	// after a blank.
	wholeLine = regexp.MustCompile(`(?im)^([-+ \t]*["']?[\w.-]*` + secretWord + `["']?[ \t]*(?:=[ \t]*|:[ \t]+))(\S.*)$`)
	name      = regexp.MustCompile(`(?i)\w*` + secretWord + assigns + `(?:(?:bearer|basic)[ \t]+)?`)
	// header is one of HTTP, in whatever form a program logs it: its value has a scheme before the secret, or several
	// parts. listed is what a name, or its plural, has in brackets or braces.
	header = regexp.MustCompile(`(?i)((?:(?:proxy-)?authorization|(?:set-)?cookie|x-[a-z-]*token)\\*["']?[ \t]*[=:][ \t]*)` +
		`(\[[^\]\n]*\]?|\\*"[^"\n]*"?|[^"'\n]+)`)
	listed = regexp.MustCompile(`(?i)(\w*` + secretWord + `s?` + assigns + `)` +
		`(\[(?:\]|[^\]{\n][^\]\n]*\]?)|\{[^{}\n]*(?:\{[^{}\n]*\}[^{}\n]*)*\}?)`)
	flagged = regexp.MustCompile(`(?i)(--?[\w-]*(?:` + secretWord + `|key)(?:[ \t\x00]+|["']?,[ \t]*|["'][ \t]+))` +
		`("[^"]*"?|'[^']*'?|[^\s\x00"',-][^\s\x00]*)`)
	account = regexp.MustCompile(`((?:^|[ \t"'])(?:-[uU][ =]?|--user[ =]|--proxy-user[ =])["']?)[^\s:"']+:[^\s"']\S*`)
	// formed is what is a credential by its form: JSON web tokens, and those with a prefix of their issuer's (prefixes).
	formed = regexp.MustCompile(`eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)*|\b(?:AKIA|ASIA)[0-9A-Z]{16}|\bAIza[\w-]{35}|\bgh[pousr]_\w{20,}|` +
		`\bgithub_pat_\w{20,}|\bglpat-[\w-]{20,}|\bdop_v1_[0-9a-f]{32,}|\bxox[abpr]-[\w-]{10,}|\bhv[sbr]\.[\w-]{20,}|\bya29\.[\w-]{20,}|` +
		`\bAGE-SECRET-KEY-1[0-9A-Z]{20,}|\bdckr_pat_[\w-]{20,}|\bnpm_\w{30,}|\bGOCSPX-[\w-]{20,}|\bK10[0-9a-f]{64}::\S+|` +
		`hooks\.slack\.com/services/\S+|(?i:bearer) [\w.~+/-]{8,}=*`)
	// base64 is long, or a line of a PEM block, which may have a time before it.
	base64    = regexp.MustCompile(`[A-Za-z0-9+/]{100,}={0,2}|(^[ \t]*)[A-Za-z0-9+/]{40,}={0,2}[ \t]*$|([ \t])[A-Za-z0-9+/]{60,}={0,2}[ \t]*$`)
	bootstrap = regexp.MustCompile(`\b([a-z0-9]{6})\.[a-z0-9]{16}\b`)

	secretKey  = regexp.MustCompile(`(?i)` + secretWord + `$`)
	secretFlag = regexp.MustCompile(`(?i)^--?[\w-]*(?:` + secretWord + `|key)$`)
	innocent   = regexp.MustCompile(`(?i)` + innocentWord + `\\*["']?[ \t=:]*$`)
)

// Text takes credentials out of a text: what a name says to be one, what has the form of one, and what a URL has before
// its host. A value that is a word of a flag stays.
func Text(text string) string {
	text = pem(text)
	if strings.Contains(text, "\n") && (mayName(text) || strings.Contains(text, variablesOf)) {
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

// line leaves out what stands before a line in a log or a comment.
func line(text string) string {
	before := prefix.FindString(text)
	return before + pieces(text[len(before):])
}

// pieces takes what is in quotes first: it may be a text in itself.
func pieces(text string) string {
	if strings.Contains(text, `"`) && mayName(text) {
		text = inQuotes(text)
	}
	return patterns(text)
}

// patterns runs only the patterns that may be in a line: each of them takes a microsecond for ten bytes.
func patterns(text string) string {
	if longRun(text) >= 40 {
		text = base64.ReplaceAllString(text, "$1$2"+Mark)
	}
	text = random(text)
	if mayBeFormed(text) {
		text = formed.ReplaceAllString(text, Mark)
	}
	if strings.Contains(text, "Environment=") {
		text = variables(text)
	}
	if mayName(text) {
		text = values(text)
	}
	if strings.Contains(text, "-u") || strings.Contains(text, "-U") { // and so --user
		text = account.ReplaceAllString(text, "${1}"+Mark)
	}
	text = beforeHost(text)
	if mayBeBootstrap(text) {
		text = bootstrap.ReplaceAllString(text, "$1."+Mark)
	}
	return text
}

// values takes out what stands behind a name.
func values(text string) string {
	text = replaceValues(text, header, listed, wholeLine)
	text = named(text)
	return replaceValues(text, append(words(text), flagged)...)
}

// replaceValues puts the mark in place of the second group of each pattern.
func replaceValues(text string, patterns ...*regexp.Regexp) string {
	for _, pattern := range patterns {
		text = pattern.ReplaceAllStringFunc(text, func(match string) string {
			parts := pattern.FindStringSubmatch(match)
			switch {
			case harmless(parts[2]) || innocent.MatchString(parts[1]):
				return match
			case pattern == wholeLine && strings.Contains(parts[1], ":") && strings.ContainsAny(parts[2][:1], `"'[{|>`):
				return match // it says itself where it ends
			}
			return parts[1] + Mark
		})
	}
	return text
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

// namesSecret takes a name without the quotes, and the second colon of LDIF, that a reader of YAML leaves at it.
func namesSecret(name string) bool {
	name = strings.Trim(name, "\\\"': \t")
	return secretKey.MatchString(name) && !innocent.MatchString(name)
}

func namesFlag(arg string) bool { return secretFlag.MatchString(arg) && !innocent.MatchString(arg) }
