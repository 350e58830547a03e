package redact

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Annotations have texts in them, which YAML quotes in its way.
func TestFields(t *testing.T) {
	for _, value := range []string{
		"id-token: '" + secret + "'", "aadClientCertPassword: it's " + secret, "password = one two " + secret, "password: \u00fcber " + secret,
		`password = "` + secret + `" # vCenter`, `{"password":"it's ` + secret + `"}`, "SMTP_PASS='one " + secret + "'", "DSN=user:" + secret + "@tcp(h:3306)/db",
	} {
		written, err := yaml.Marshal(map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{"example.org/note": value}}, "list": []string{value},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, mark := range []string{"", "+", "-", "\t"} {
			text := mark + strings.ReplaceAll(strings.TrimSpace(string(written)), "\n", "\n"+mark) + "\n"
			got := Fields(text)
			if strings.Contains(got, secret) || !strings.Contains(got, "example.org/note: ") {
				t.Errorf("%q becomes %q", text, got)
			}
			if again := Fields(got); again != got {
				t.Errorf("a second time %q becomes %q", got, again)
			}
		}
	}
}

func TestFields_LeavesWhatIsNoCredential(t *testing.T) {
	text := "[dryrun] Would perform action PATCH on resource \"nodes\"\n\tmetadata:\n\t  annotations:\n\t    a: 'it''s: fine'\n" +
		"+  replicas: 2\n   list:\n   - \"x: y\"\n   - z: *alias\n   text: |\n     b\n   empty: \"\"\n   n: null\n"
	if got := Fields(text); got != text {
		t.Errorf("got %q, want %q", got, text)
	}
}
