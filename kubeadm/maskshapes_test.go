package kubeadm

import (
	"fmt"
	"strings"
	"testing"
)

// What a dry run and the journal show of a line has no credential in it.
func TestMaskSecrets_Shapes(t *testing.T) {
	for _, shape := range []string{
		"dbpass=%s", "GH_PAT: %s", `"api.key": "%s"`, "https://user:%s@host.example/x", "--vault-pass %s", "Authorization: Bearer %s",
		"passwords: [a, %s]", "passphrase: |\n  one\n  %s", "https://x/?sv=1&sig=%s",
	} {
		const secret = "hunter2hunter2"
		if got := string(MaskSecrets(fmt.Appendf(nil, shape, secret))); strings.Contains(got, secret) {
			t.Errorf("%q has become %q", shape, got)
		}
	}
}
