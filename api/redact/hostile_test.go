package redact

import (
	"strconv"
	"strings"
	"testing"
)

// drawn is as long and as mixed as a key of AWS.
const drawn = "Zq8kT2mXv9Lw4Rb7Yc1Ndhunter2hunter2PqWxYz"

const keyLines = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" + secret + "AoIBAQC7VJTUt9Us8cKj\n" + secret + "x9\n"

// hostileShapes are texts that took a credential past this package, one time or another.
func hostileShapes() []string {
	return []string{
		// Quotes within quotes, of JSON within JSON, of YAML, of Go and of several lines.
		`{"password":"a\"` + secret + `"}`, `password: "a\"b ` + secret + `"`, "password: 'it''s " + secret + "'",
		`{"a":"{\"password\":\"a\\\"` + secret + `\"}"}`, `{\\\"password\\\": \\\"` + secret + `\\\"}`,
		`"{\\\"clientSecret\\\":\\\"` + secret + `\\\"}"`, "x password=\"one\ntwo " + secret + `"`,
		"password: \"one\n  two " + secret + `"`, "{Password:" + secret + "}", "&{User:u Password:" + secret + "}",
		// Values on the lines behind their names.
		"password:\n  " + secret, "password:\n- " + secret, "passwords:\n- a\n- " + secret, "tokens:\n  - " + secret,
		`"password":` + "\n  \"" + secret + `"`, "\"passwords\": [\n  \"" + secret + "\"\n]", "password = \\\n  " + secret,
		"password: &a |\n  " + secret, "password: !!str " + secret, "password: | # of the cloud\n  " + secret,
		"- password: |\n    " + secret + "\n  user: u", "+  password:\n+    " + secret, "password: !!binary |\n  " + secret,
		"--password\n" + secret, "- --password\n- " + secret, "- \"--token\"\n- \"" + secret + "\"", "--password \\\n  " + secret,
		"2026-11-22T10:00:00+0000 w1 cat[7]: passphrase: |\n2026-11-22T10:00:00+0000 w1 systemd[1]: Started x.\n2026-11-22T10:00:00+0000 w1 cat[7]:   " + secret,
		"2026-11-22T10:00:00+0000 w1 kubelet[7]: passphrase: |\n2026-11-22T10:00:00+0000 w1 kubelet[7]:   " + secret,
		"2026-11-22T10:00:00.1Z stderr F password:\n2026-11-22T10:00:00.2Z stderr F   " + secret,
		"# password:\n#   " + secret, "# - name: DB_PASS\n#   value: " + secret, "; password = one two " + secret, "# --token\n# " + secret,
		"2026-11-22T10:00:00+0000 w1 (cat)[7]: password = one two " + secret, "// password: it's " + secret,
		// Texts in quotes that have lines and quotes of their own.
		`"a":{"note":"aadClientCertPassword: it's ` + secret + `"}`, `"note":"\u003cpassword\u003e` + secret + `\u003c/password\u003e"`,
		`"a":{"note":"- name: DB_PASS\n  value: ` + secret + `"}`, `x "[\"--token\", \"` + secret + `\"]"`, `I1122 x.go:1] "Failed" err="password: one two ` + secret + `"`,
		// Variables of kubeadm's configuration, whatever they are called.
		"controllerManager: {extraEnvs: [{name: PLAIN, value: " + secret + "}, {name: B, value: 'b " + secret + "'}]}\nother: x",
		"scheduler:\n  extraEnvs:\n  - name: PLAIN\n    value: " + secret + "\n", "+  extraEnvs:\n+  - {name: PLAIN, value: " + secret + "}\n",
		// Values of several words, with commas and letters beyond ASCII.
		"password: one two " + secret, "password: one, " + secret, "password: \u00e4 " + secret, "x password=one,two" + secret,
		"password=\u201c" + secret + "\u201d", "password :\u00a0" + secret,
		// Arguments in lists, and as /proc has them.
		`["--password", "` + secret + `"]`, `"--password","` + secret + `"`, "[--password, " + secret + "]", "--vault-pass\x00" + secret,
		`["--password" "` + secret + `"]`, "curl -uuser:" + secret, "curl -U u:" + secret, "curl --proxy-user u:" + secret,
		"curl -u 'user:" + secret + "'", "sshpass -p " + secret + " ssh x", "sshpass -p" + secret + " ssh x",
		// Names with a number or a word behind them, and those of one field or another.
		"PASSWORD_OLD=" + secret, "password1: " + secret, "APP_SECRET_V2=" + secret, "TOKEN1=" + secret, "SECRET_KEY_BASE=" + secret,
		"role_secret_id=" + secret, "passwordHash: " + secret, "heartbeat-key: " + secret, "heartbeatKey=" + secret,
		".dockerconfigjson: " + secret, ".dockercfg: " + secret, "basicAuth: u:" + secret, "connectionString: x;" + secret,
		"connection_string=" + secret, "DSN=" + secret, "jwt: " + secret, "tcp-md5: " + secret, "md5sig=" + secret, "privkey=" + secret,
		"Ocp-Apim-Subscription-Key: " + secret, "userPassword:: " + secret, "bearer: " + secret, "passwort: " + secret,
		"password -> " + secret, `"password" => "` + secret + `"`, "password:=" + secret,
		// Names with nothing between them and their values.
		"neighbor 10.0.0.1 password " + secret, "neighbor 10.0.0.1 password 7 " + secret, `password "` + secret + `";`,
		`{"name":"DB_PASS","value":"` + secret + `"}`, "{name: API_TOKEN, value: " + secret + "}", `{\"name\":\"DB_PASS\",\"value\":\"` + secret + `\"}`,
		"<password>" + secret + "</password>", `<ns1:password xsi:type="x">` + secret + "</ns1:password>",
		"{\n \"name\": \"DB_PASS\",\n \"value\": \"" + secret + "\"\n}",
		// Addresses.
		"http://u:a/" + secret + "@h/x", `https:\/\/u:` + secret + `@h`, "https%3A%2F%2Fu%3A" + secret + "%40h", "https_proxy=u:" + secret + "@p:3128",
		"u:" + secret + "@tcp(h:3306)/db", "https://x/?key=" + secret, "https://hooks.slack.com/services/T0/B0/" + secret,
		// Keys of PEM with something before each of their lines, and in a form.
		"> -----BEGIN PRIVATE KEY-----\n> " + strings.ReplaceAll(keyLines, "\n", "\n> ") + "-----END PRIVATE KEY-----",
		"11:00 w1 x[1]: -----BEGIN PRIVATE KEY-----\n11:00 w1 x[1]: MII" + secret + "\n11:00 w1 x[1]: -----END PRIVATE KEY-----",
		"key=-----BEGIN%20PRIVATE%20KEY-----%0AMII" + secret + "%0A-----END",
		// What is a credential by its form, anywhere in a line.
		"the key " + drawn + " is refused", "AGE-SECRET-KEY-1" + strings.ToUpper(drawn) + secret, "dckr_pat_" + drawn, "npm_" + drawn,
		"GOCSPX-" + drawn, "hvb." + drawn, "K10" + strings.Repeat("ab", 32) + "::server:" + secret,
	}
}

func TestText_HostileShapes(t *testing.T) {
	leaks := func(text string) bool { return strings.Contains(text, secret) || strings.Contains(text, drawn) }
	for _, text := range hostileShapes() {
		got := Text(text)
		if leaks(got) || !strings.Contains(got, Mark) {
			t.Errorf("%q becomes %q", text, got)
		}
		if again := Text(got); again != got {
			t.Errorf("a second time %q becomes %q", got, again)
		}
		note := "kind: Pod\nmetadata: {annotations: {note: " + strconv.Quote(strings.ReplaceAll(text, "\x00", " ")) + "}}\n"
		if got := string(Document([]byte(note))); leaks(got) || !strings.Contains(got, Mark) || !strings.Contains(got, "kind: Pod") {
			t.Errorf("in an annotation %q becomes %q", text, got)
		}
		if got := string(Document([]byte(text))); leaks(got) || !strings.Contains(got, Mark) {
			t.Errorf("as a document %q becomes %q", text, got)
		}
	}
}

func TestText_HostileShapesOfWords(t *testing.T) {
	for _, text := range []string{
		"extraEnvs:\n- name: A\n  value: true\nextraArgs:\n- name: v\n  value: kept", "volumes:\n- name: a\n  secret:\n    secretName: cloud\n    items: []", "authorization:\n  mode: Webhook", "imagePullSecrets:\n- name: pull",
		"https://h:8080/a?mail=u@example.org", "image: registry.k8s.io/pause:3.9@sha256:" + strings.Repeat("ab", 32),
		"-----BEGIN is how PEM begins", "[INFO] 127.0.0.1:1 - 2 \"A IN x. udp 3\" NOERROR", "journalctl -u kubelet: it says", "name: REGION, value: eu",
		"certificate-hash sha256:" + strings.Repeat("0a", 32), "/var/lib/kubelet/pods/0b5bd1a2-8b0f-4a4e-9c1d-3e2f1a0b9c8d/volumes/projected",
		"--discovery-token\n- --v=2", "use --token, --config or nothing", "github.com/acme/NodeLifecycleControllerReconcilerForMachines.func",
		"syncLoadBalancer ensureSecurityGroupRules2 reconcileNodeAddresses1", "passport: x", "tokens.go:12] listing", "description: x",
	} {
		if got := Text(text); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

// A list of JSON is read as one; what only begins with a bracket stays as it is.
func TestDocument_Lists(t *testing.T) {
	text := "metadata: {annotations: {a: '[{\"name\":\"x\",\"password\":\"" + secret + "\"}]', b: '[kept] as it is'}}"
	if got := string(Document([]byte(text))); strings.Contains(got, secret) || !strings.Contains(got, "'[kept] as it is'") {
		t.Errorf("got\n%s", got)
	}
}
