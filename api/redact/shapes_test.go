package redact

import (
	"strings"
	"testing"
)

// Names that end as a credential's do, whatever they begin with, and values of any form.
func TestText_Shapes(t *testing.T) {
	for _, text := range []string{
		"dbpass=" + secret, "adminpass: " + secret, "GH_PAT=" + secret, "GITLAB_PAT: " + secret, "USERPWD=" + secret,
		"DB_PW=" + secret, "https://x.blob.core.example/c?sv=1&sig=" + secret + "&se=2", "PUT /b?X-Amz-Signature=" + secret,
		"https://x/?X-Amz-Credential=" + secret, "ansible-playbook --vault-pass " + secret, "passwords: [a, " + secret + "]",
		`credentials-json: {"id": "a", "k": "` + secret + `"}`, `gcp_creds_json={"a":{"b":"` + secret + `"}}`,
		"passphrase: |\n  one\n  two " + secret, "a:\n  passphrase: >-\n    one\n\n    " + secret + "\n  kept: yes",
		"api.key = " + secret, "sshkey: " + secret, "psk: " + secret, "wpa_psk=" + secret, "ssh_key: " + secret,
		"rootpass = one " + secret, "smtpPass: '" + secret + "'", "passcode=" + secret, "SharedAccessSignature=" + secret,
		"- name: DB_PASS\n  value: " + secret, "+    - name: API_TOKEN\n+      value: one " + secret,
		"tokens=[" + secret + "]", "AWS_SECRET_ACCESS_KEY=" + secret, "masterKey: " + secret, "token_b64: " + secret,
	} {
		got := Text(text)
		if strings.Contains(got, secret) {
			t.Errorf("%q becomes %q", text, got)
		}
		if again := Text(got); again != got {
			t.Errorf("a second time %q becomes %q", got, again)
		}
		if strings.Contains(text, "kept") && !strings.Contains(got, "kept: yes") {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func TestText_ShapesOfWords(t *testing.T) {
	for _, text := range []string{
		"bypass: yes", "compass=north", "passthrough: on", "pathPrefix: /x", "path=/a", "compat: 1", "signal=15",
		"sigs.k8s.io/yaml: v1", "design=new", "topologyKey: kubernetes.io/hostname", "public-key: abc", "--bypass all",
		"keyring: x", "passed=3", "imagePullSecrets: [{name: pull}]", "cannot list secrets: forbidden", "author: me",
		"- name: REGION\n  value: eu", "- name: BYPASS\n  value: eu", "tokenTTL: 5m", "secretName: cloud", "pattern: a.b",
		"monkey: 3", "signing: on", "credit: 4", "powers=2", "sort_key=a", "patch=1",
	} {
		if got := Text(text); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

// Documents by type: a map of credentials goes as a list of them does; what only refers to a Secret stays.
func TestDocument_Shapes(t *testing.T) {
	got := string(Document([]byte(`credentials-json: {id: ` + secret + `, n: {k: ` + secret + `}}
passwords: [a, ` + secret + `]
passphrase: |
  one
  ` + secret + `
command: [tool, --vault-pass, ` + secret + `]
line: tool --vault-pass ` + secret + `
configuration: {controllerManager: {extraEnv: [PLAIN=` + secret + `, "P=http://u:` + secret + `@p"]}}
api.key: ` + secret + `
volumes: [{secret: {secretName: kept-secret}}]
from: {secretRef: {name: kept-ref}}
`)))
	if strings.Contains(got, secret) {
		t.Errorf("a credential is left:\n%s", got)
	}
	for _, kept := range []string{"kept-secret", "kept-ref", "PLAIN"} {
		if !strings.Contains(got, kept) {
			t.Errorf("%s is gone:\n%s", kept, got)
		}
	}
}
