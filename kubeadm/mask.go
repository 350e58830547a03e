package kubeadm

import (
	"bytes"
	"regexp"

	"github.com/ccmadm/ccmadm/api/redact"
)

// MaskSecrets hides the secret half of bootstrap tokens, and certificate keys, in kubeadm configuration; and passwords
// in addresses, as of a proxy. What package redact knows to be a credential goes, too.
func MaskSecrets(data []byte) []byte {
	token := regexp.MustCompile(`\b([a-z0-9]{6})\.[a-z0-9]{16}\b`)
	key := regexp.MustCompile(`\b[0-9a-fA-F]{64}\b`)
	password := regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`)
	lines := bytes.SplitAfter(data, []byte("\n"))
	for i, line := range lines {
		if bytes.Contains(line, []byte("certificateKey")) {
			line = key.ReplaceAll(line, []byte("<hidden>"))
		}
		line = password.ReplaceAll(line, []byte("${1}<hidden>@"))
		lines[i] = token.ReplaceAll(line, []byte("$1.<hidden>"))
	}
	return []byte(redact.Text(string(bytes.Join(lines, nil))))
}
