package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/redact"
)

// secretShapes are how credentials stand in texts. Each %s is the secret, of sixteen letters and numbers.
func secretShapes() []string {
	const filler = "aB3+xY9/Qw7Lk2Mn5Tz8Rv4" // so that a key is as long and as mixed as a real one
	shapes := []string{
		// Clouds.
		"aws_secret_access_key = " + filler + "%s", "AWS_SECRET_ACCESS_KEY=%s" + filler, `export AWS_SESSION_TOKEN="%s"`,
		"application-credential-secret=%s", "application_credential_secret: \"%s\"", "OS_PASSWORD='%s'", "trustee-password=%s", "HCLOUD_TOKEN=%s",
		`"aadClientSecret": "%s",`, "AZURE_CLIENT_SECRET: %s", "aadClientCertPassword: it's %s", "password = \"%s\" # vCenter", "vcenter.example.password: %s",
		`{"type":"service_account","private_key":"-----BEGIN PRIVATE KEY-----\nMIIE%s\n-----END PRIVATE KEY-----\n"}`,
		"<ns1:password>%s</ns1:password>", "AccountKey=%s==;EndpointSuffix=core.example.net", "robot-password=%s", "secret_id: %s", "x-api-key: %s",
		// Kubernetes.
		"token: %s", "client-key-data: %s", "Authorization: Bearer %s", `{"headers":{"Authorization":["Basic %s"]}}`, "abcdef.%s is a bootstrap token",
		"certificateKey: %[1]s%[1]s%[1]s%[1]s", "--certificate-key %[1]s%[1]s%[1]s%[1]s", "kubelet --token %s --v=2", "id-token: '%s'",
		`{"auths":{"registry.example":{"auth":"%s"}}}`, ".dockerconfigjson: %s", `identitytoken = "%s"`, `auth = "%s"`, "--docker-password=%s",
		`- name: DB_PASS` + "\n" + `  value: %s`, `{"name":"API_TOKEN","value":"%s"}`, `["--token", "%s"]`, "- --api-token\n- %s", "- --password=%s",
		`{"kind":"Secret","stringData":{"password":"%s"}}`, `{\"password\":\"%s\"}`, `{\\\"clientSecret\\\":\\\"%s\\\"}`,
		"-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA%s\n%[1]sQ==\n-----END RSA PRIVATE KEY-----",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE%s\n-----END OPENSSH PRIVATE KEY-----",
		// Addresses.
		"HTTPS_PROXY=http://user:%s@proxy.example:3128", "http_proxy: user:%s@proxy.example:3128", "postgres://user:%s@db.example/x", "redis://:%s@db.example",
		"https://%s@git.example/x", "https://user:a/%s@cloud.example", "https%%3A%%2F%%2Fuser%%3A%s%%40cloud.example", "https://x.example/?sv=1&sig=%s&se=2",
		"PUT /b?X-Amz-Signature=%s", "https://x.example/?X-Amz-Security-Token=%s", "https://x.example/?key=%s", "https://x.example/?access_token=%s",
		// Networks and tools.
		"neighbor 10.0.0.1 password %s", `password "%s";`, "tcp-md5: %s", "heartbeat-key: %s", "authKey: %s", "psk: %s", "wpa_psk=%s", "dbpass=%s", "GH_PAT=%s",
		"GITLAB_TOKEN: glpat-%[1]s%[1]s", "ansible-playbook --vault-pass %s", "ansible_become_pass: %s", "curl -u admin:%s https://x.example",
		"sshpass -p %s ssh x", "jdbc:mysql://h/db?user=u&password=%s", "Server=h;Uid=u;Pwd=%s;", "DSN=user:%s@tcp(h:3306)/db", "SMTP_PASS='one %s'",
		// Forms of several values and of several lines.
		"passwords: [one, %s]", `credentials-json: {"id": "a", "k": "%s"}`, "passphrase: |\n  one\n  %s", "passphrase: >-\n  one\n\n  %s", "tokens:\n- one\n- %s",
		"password:\n  %s", "password = one two %s", "password:\t%s", "password: \u00fcber %s", "PASSWORD_OLD=%s", "secret_key_2: %s", "sessionCookie: %s",
	}
	for i, s := range shapes {
		shapes[i] = strings.ReplaceAll(s, "%s", "%[1]s")
	}
	return shapes
}

// planted is what was put somewhere: by its number of a place and of a shape.
type planted struct {
	run    string
	places []string
	list   []string
}

// secret makes one, of which the first twelve characters are nowhere else.
func (p *planted) secret(place, shape int) string {
	s := fmt.Sprintf("%s%02x%02x0000", p.run, place, shape)
	p.list = append(p.list, s)
	return s
}

// in begins another place, and returns all shapes with secrets of their own for it.
func (p *planted) in(place string) []string {
	number := len(p.places)
	p.places = append(p.places, place)
	var texts []string
	for i, shape := range secretShapes() {
		texts = append(texts, fmt.Sprintf(shape, p.secret(number, i)))
	}
	return texts
}

// one begins a place that has one secret, or a few. Other places may begin before it is complete.
func (p *planted) one(place string) func() string {
	number, next := len(p.places), 0
	p.places = append(p.places, place)
	return func() string { next++; return p.secret(number, 0x80+next) } // behind all shapes
}

// found are those that are in a text: as they are, in the three forms of base64, and over several lines.
func (p *planted) found(text string) []string {
	joined := strings.NewReplacer("\n", "", "\r", "", " ", "", "\t", "", `\n`, "", `"`, "", "'", "", "+", "", "\\", "").Replace(text)
	var list []string
	for _, secret := range p.list {
		hit := strings.Contains(joined, secret[:12])
		for skip := range 3 { // at each alignment, those characters that depend on the secret alone
			encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", skip) + secret))
			hit = hit || strings.Contains(joined, encoded[4:len(encoded)-4])
		}
		if hit {
			list = append(list, secret)
		}
	}
	return list
}

// where says what a secret is, for the report of a leak.
func (p *planted) where(secret string) string {
	var place, shape int
	if _, err := fmt.Sscanf(secret[len(p.run):], "%02x%02x", &place, &shape); err != nil || place >= len(p.places) {
		return secret
	}
	what := fmt.Sprintf("secret %d", shape)
	if list := secretShapes(); shape < len(list) {
		what = list[shape]
	}
	return fmt.Sprintf("%s: %q", p.places[place], what)
}

// TestTables_SecretsAreFound: the search of TestSecrets finds a secret in each form in which it could leave.
func TestTables_SecretsAreFound(t *testing.T) {
	p := &planted{run: "9f3ab2c1"}
	secret := p.one("here")()
	if len(secretShapes()) < 60 {
		t.Errorf("only %d shapes", len(secretShapes()))
	}
	for i, text := range p.in("everywhere") {
		if len(p.found(text)) != 1 {
			t.Errorf("shape %d has not one secret: %s", i, text)
		}
	}
	for _, text := range []string{
		secret, "x" + secret[:7] + "\n  " + secret[7:], base64.StdEncoding.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte("ab" + secret)),
		base64.StdEncoding.EncodeToString([]byte("password = " + secret + "\n")), `"` + secret[:5] + `" + "` + secret[5:] + `"`,
	} {
		if len(p.found(text)) != 1 {
			t.Errorf("not found in %q", text)
		}
	}
	first, second := p.one("one"), p.one("another")
	if a, b, c := first(), second(), first(); a == b || b == c || a == c || !strings.HasPrefix(p.where(a), "one: ") || !strings.HasPrefix(p.where(b), "another: ") {
		t.Errorf("%s %s %s", p.where(a), p.where(b), p.where(c))
	}
	if got := p.found(secret[:11] + " " + strings.ToUpper(secret)); len(got) > 0 {
		t.Errorf("found %v", got)
	}
}

// TestTables_SecretsAreRedacted: what TestSecrets plants, in the forms that the places give it, without machines.
func TestTables_SecretsAreRedacted(t *testing.T) {
	p := &planted{run: "9f3ab2c1"}
	all := p.in("one")
	before := func(start string) func([]string) string {
		return func(texts []string) string {
			return start + strings.ReplaceAll(strings.Join(texts, "\n"), "\n", "\n"+start) + "\n"
		}
	}
	encoded := func(texts []string) string {
		annotations := map[string]string{}
		for i, text := range texts {
			annotations[fmt.Sprintf("example.org/note-%d", i)] = text
		}
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
		if err != nil {
			t.Fatal(err)
		}
		return string(data) + "\n"
	}
	for form, write := range map[string]func([]string) string{
		"lines": before(""), "comments": before("# "), "a kubelet's journal": before("2026-11-22T10:00:00+0000 cp1 (cat)[7]: "),
		"a container's log": before("2026-11-22T10:00:00.000000000Z stderr F "), "a difference": before("+"), "JSON": encoded,
		"a line of a difference": func(texts []string) string { return "+" + encoded(texts) },
		"a file within a file":   func(texts []string) string { return "data:\n  file: " + encoded([]string{encoded(texts)}) },
	} {
		for kind, redacted := range map[string]func(string) string{
			"text": redact.Text, "document": func(text string) string { return string(redact.Document([]byte(text))) },
		} {
			got := redacted(write(all))
			for _, secret := range p.found(got) {
				t.Errorf("%s as %s: %s\n%s", form, kind, p.where(secret), around(got, secret))
			}
		}
	}
}
