package bootstrap

import (
	"bytes"
	"encoding/hex"
	"strings"
)

// keyReader finds the certificate key in what kubeadm prints: nothing else has it, since kubeadm makes it. It stands in
// a line of its own after the one that announces it, and is left out with --skip-certificate-key-print:
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/cmd/kubeadm/app/cmd/phases/init/uploadcerts.go
type keyReader struct {
	key       string
	announced bool
	rest      []byte // of a line that is not complete
}

// Write takes what kubeadm prints, in pieces of any size. It never fails.
func (r *keyReader) Write(data []byte) (int, error) {
	r.rest = append(r.rest, data...)
	for {
		line, rest, complete := bytes.Cut(r.rest, []byte("\n"))
		if !complete {
			return len(data), nil
		}
		r.rest = rest
		r.line(strings.TrimSpace(string(line)))
	}
}

func (r *keyReader) line(text string) {
	if raw, err := hex.DecodeString(text); r.announced && err == nil && len(raw) == 32 { // AES-256
		r.key = text
	}
	r.announced = strings.HasSuffix(text, "Using certificate key:")
}
