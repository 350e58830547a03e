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

const secretWord = `(?:password|passwd|passphrase|\bpwd|\bpass|token|secret|authorization|credentials?|cookie|` +
	`(?:api|access|private|client|secret|certificate|encryption|signing|shared|account)[-_]?key(?:[-_]?(?:id|data))?)`

var (
	// wholeLine is a line of a configuration file: its value has blanks in it. named stands anywhere, and flagged is an
	// argument whose value comes after a blank.
	wholeLine = regexp.MustCompile(`(?im)^([ \t]*["']?[\w.-]*` + secretWord + `["']?[ \t]*=[ \t]*)(\S.*)$`)
	named     = regexp.MustCompile(`(?i)(` + secretWord + `\\?["']?[ \t]*[=:][ \t]*)(?:(?:bearer|basic)[ \t]+)?` +
		`([|>][-+]?[ \t]*\n[ \t]+\S.*|\\?"[^"]*"?|\\?'[^']*'?|[^\s"',]+)`)
	flagged = regexp.MustCompile(`(?i)(--?[\w-]*(?:password|passwd|token|secret|credentials?|key)[ \t]+)("[^"]*"?|'[^']*'?|[^\s"'-]\S*)`)
	account = regexp.MustCompile(`((?:^|[ \t])(?:-u|--user)[ =])[^\s:]+:\S+`)
	// formed is what is a credential by its form: PEM, also of which the end is cut off, long base64, JSON web tokens, and
	// those with a prefix of their issuer's.
	formed = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]+-----(?:[\sA-Za-z0-9+/=:,\\-]*?-----END [A-Z0-9 ]+-----|[\sA-Za-z0-9+/=:,\\-]*)|` +
		`[A-Za-z0-9+/]{100,}={0,2}|eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)*|\b(?:AKIA|ASIA)[0-9A-Z]{16}|\bAIza[\w-]{35}|\bgh[pousr]_\w{20,}|` +
		`\bgithub_pat_\w{20,}|\bglpat-[\w-]{20,}|\bdop_v1_[0-9a-f]{32,}|\bxox[abpr]-[\w-]{10,}|\bhvs\.[\w-]{20,}|\bya29\.[\w-]{20,}|` +
		`(?i:bearer) [\w.~+/-]{8,}=*`)
	// bareBase64 is a line of a PEM block whose first line is elsewhere.
	bareBase64 = regexp.MustCompile(`(?m)^[ \t]*[A-Za-z0-9+/]{40,}={0,2}[ \t]*$`)
	userinfo   = regexp.MustCompile(`(://)([^/\s@:"'<>]*)(:?)[^/\s"'<>]*@`)
	bootstrap  = regexp.MustCompile(`\b([a-z0-9]{6})\.[a-z0-9]{16}\b`)

	secretKey  = regexp.MustCompile(`(?i)` + secretWord + `$`)
	secretFlag = regexp.MustCompile(`(?i)^--?[\w-]*(?:password|passwd|token|secret|credentials?|key)$`)
)

// Text takes credentials out of a text: what a name says to be one, what has the form of one, and what a URL has before
// its host. A value that is a word of a flag stays.
func Text(text string) string {
	text = formed.ReplaceAllString(text, Mark)
	text = bareBase64.ReplaceAllString(text, Mark)
	for _, pattern := range []*regexp.Regexp{wholeLine, named, flagged} {
		text = pattern.ReplaceAllStringFunc(text, func(match string) string {
			parts := pattern.FindStringSubmatch(match)
			if harmless(parts[2]) {
				return match
			}
			return parts[1] + Mark
		})
	}
	text = account.ReplaceAllString(text, "${1}"+Mark)
	text = userinfo.ReplaceAllStringFunc(text, func(match string) string {
		parts := userinfo.FindStringSubmatch(match)
		if parts[3] == "" {
			return parts[1] + Mark + "@"
		}
		return parts[1] + parts[2] + ":" + Mark + "@"
	})
	return bootstrap.ReplaceAllString(text, "$1."+Mark)
}

func harmless(value string) bool {
	value = strings.Trim(value, `\"'`)
	return slices.Contains([]string{"", "true", "false"}, value) || strings.HasPrefix(value, Mark)
}

// Args takes credentials out of a command line in place, those too that are an argument of their own.
func Args(args []string) {
	for i := range args {
		args[i] = Text(args[i])
		if i > 0 && secretFlag.MatchString(args[i-1]) {
			args[i] = Mark
		}
	}
}

// Secret tells whether a field or a flag of this name holds a credential.
func Secret(name string) bool { return secretKey.MatchString(name) }
