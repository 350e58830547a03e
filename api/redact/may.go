package redact

import (
	"strings"
	"unicode/utf8"
)

// mayName reports whether a text may have a word of secretWord in it: one of each alternative is looked for. Of letters
// beyond ASCII the patterns take two for k and s.
func mayName(text string) bool {
	for i := range len(text) {
		rest, found := text[i:], false
		switch c := text[i]; c | 0x20 { // in small letters
		case 'a':
			found = begins(rest, "auth")
		case 'c':
			found = begins(rest, "cred") || begins(rest, "cookie") || begins(rest, "conn")
		case 'b':
			found = begins(rest, "bearer")
		case 'd':
			found = begins(rest, "docker") || begins(rest, "dsn")
		case 'j':
			found = begins(rest, "jwt")
		case 'k':
			found = begins(rest, "key")
		case 'p':
			found = begins(rest, "pass") || begins(rest, "psk") || begins(rest, "pw") || begins(rest, "privkey") || stands(rest, "pat")
		case 'm':
			found = begins(rest, "md5")
		case 's':
			found = begins(rest, "secret") || begins(rest, "signature") || stands(rest, "sig")
		case 't':
			found = begins(rest, "token")
		default:
			found = c >= utf8.RuneSelf
		}
		if found {
			return true
		}
	}
	return false
}

// begins reports whether a text begins with a word, in capitals or not.
func begins(text, word string) bool {
	return len(text) >= len(word) && strings.EqualFold(text[:len(word)], word)
}

// stands reports whether a text begins with a word that no letter follows, but in a longer name of a value, as pat_json.
func stands(text, word string) bool {
	if !begins(text, word) {
		return false
	}
	rest := text[len(word):]
	for _, kind := range [...]string{
		"json", "data", "value", "text", "base64", "b64", "string", "hash", "plain", "old", "new", "previous", "id", "v",
	} {
		if begins(rest, kind) {
			return true
		}
	}
	return rest == "" || rest[0]|0x20 < 'a' || rest[0]|0x20 > 'z'
}

// mayBeFormed reports whether one of the beginnings of formed is in a text.
func mayBeFormed(text string) bool {
	if len(text) < len("eyJ12345678.1") { // the shortest of them
		return false
	}
	for _, prefix := range [...]string{
		"eyJ", "AKIA", "ASIA", "AIza", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "dop_v1_", "xox",
		"hvs.", "hvb.", "hvr.", "ya29.", "AGE-SECRET-KEY-1", "dckr_pat_", "npm_", "GOCSPX-", "K10", "hooks.slack.com/",
	} {
		if strings.Contains(text, prefix) {
			return true
		}
	}
	for i := range len(text) {
		if text[i]|0x20 == 'b' && begins(text[i:], "bearer ") {
			return true
		}
	}
	return false
}

// longRun is the length of the longest row of characters of base64.
func longRun(text string) int {
	longest, run := 0, 0
	for i := range len(text) {
		if c := text[i]; isLower(c) || c >= 'A' && c <= 'Z' || c == '+' || c == '/' {
			run++
			longest = max(longest, run)
			continue
		}
		run = 0
	}
	return longest
}

// mayBeBootstrap looks for a dot with six characters before and sixteen after it.
func mayBeBootstrap(text string) bool {
	for i := 6; i+16 < len(text); i++ {
		if text[i] == '.' && allLower(text[i-6:i]) && allLower(text[i+1:i+17]) {
			return true
		}
	}
	return false
}

func allLower(text string) bool {
	for i := range len(text) {
		if !isLower(text[i]) {
			return false
		}
	}
	return true
}

// isLower reports whether it may be in a bootstrap token.
func isLower(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
