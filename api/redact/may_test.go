package redact

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// wholly is Text without a look at what may be in it: every pattern runs.
func wholly(text string) string {
	text = pem(text)
	if strings.Contains(text, "\n") {
		text = furtherLines(text)
	}
	var out strings.Builder
	for whole := range strings.Lines(text) {
		content := strings.TrimRight(whole, "\r\n")
		before := prefix.FindString(content)
		rest := content[len(before):]
		if strings.Contains(rest, `"`) {
			rest = inQuotes(rest)
		}
		out.WriteString(before + everyPattern(rest) + whole[len(content):])
	}
	return out.String()
}

func everyPattern(text string) string {
	text = base64.ReplaceAllString(text, "$1$2"+Mark)
	text = formed.ReplaceAllString(random(text), Mark)
	text = values(variables(text))
	text = account.ReplaceAllString(text, "${1}"+Mark)
	return bootstrap.ReplaceAllString(beforeHost(text), "$1."+Mark)
}

// hostile are pieces of which texts are made that come near to what a pattern takes, in whatever letters.
func hostile() []string {
	twice := secret + secret
	return []string{
		"password", "PassWord", "dbpass", "bypass", "_PAT", "?sig", "X-Amz-Signature", "psk", "_pw", "pat_json", "creds-json",
		"name: DB_PASS\n", "value: ", "--vault-pass", "pa\u017f\u017fword", "\u017fecret", "SECRET", "to\u212aen", "\u212aey", "passwd",
		"passphrase", "pwd", "auth", "Authorization", "credentials", "Cookie", "api-key", "apiKey", "client_key_data",
		"x-amz-token", "key", "=", ":", ": ", " = ", "\"", "'", `\"`, "[", "]", "{", "}", " ", "\t", "\n", "\r\n", "--",
		"-u", "--user ", "-u admin:" + secret, "Bearer ", "bEaReR ", "basic ", secret, "abc", "true", Mark, ",", "|\n  ",
		">-\n\t", "Environment=", `Environment="A=`, "Environment=KUBELET_X=", "eyJ", "eyJhbGciOiJ.x",
		"AKIA" + strings.Repeat("A", 16), "ASIA", "AIza" + strings.Repeat("b", 35), "ghp_" + twice, "github_pat_" + twice,
		"glpat-" + twice, "dop_v1_" + strings.Repeat("0", 32), "xoxb-" + secret, "hvs." + twice, "ya29." + twice,
		"<password>", "</", "neighbor x password ", "?key=", "sshpass -p ", "-----BEGIN%20", "-----BEGIN ", "proxy=u:", "%3A%2F%2Fa%3A",
		"%40", `:\/\/`, "docker", "dockercfg", "tcp-md5", "_dsn", "jwt", "connstr", "privkey", "bearer: ", "_old", "V2", "- ", "+", "''",
		"extraEnvs:\n", "extraEnvs: [{name: A, value: ", "AGE-SECRET-KEY-1" + strings.Repeat("A", 20), "npm_" + strings.Repeat("a", 30), "hooks.slack.com/services/x", "aB3+" + strings.Repeat("cD4", 13),
		"https://", "://a:b@", "://", "@", "/", ".", "abcdef.0123456789abcdef", "abcdef", "0123456789abcdef",
		strings.Repeat("A", 39), strings.Repeat("b", 61), "-----BEGIN RSA PRIVATE KEY-----",
		"-----END RSA PRIVATE KEY-----", "MII\n", "\x1b[31m", "\xff", "\u00e9",
	}
}

// What Text leaves out because it cannot be in a text would change nothing.
func TestText_AsWithEveryPattern(t *testing.T) {
	pieces := hostile()
	random := rand.New(rand.NewPCG(1, 2))
	changed := 0
	for range 5_000 {
		var b strings.Builder
		for range 1 + random.IntN(8) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		text := b.String()
		got, want := Text(text), wholly(text)
		if got != want {
			t.Fatalf("of %q\n got %q\nwant %q", text, got, want)
		}
		if got != text {
			changed++
		}
		for _, name := range []string{text, pieces[random.IntN(len(pieces))]} {
			if got, want := Secret(name), namesSecret(name); got != want {
				t.Fatalf("Secret(%q) is %v, want %v", name, got, want)
			}
			if got, want := isSecretFlag(name), namesFlag(name); got != want {
				t.Fatalf("isSecretFlag(%q) is %v, want %v", name, got, want)
			}
		}
	}
	if changed < 2_000 {
		t.Errorf("only %d texts had a credential: these are no hostile ones", changed)
	}
}
