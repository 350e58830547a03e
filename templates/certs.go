package templates

import (
	"bytes"
	_ "embed"
	"strings"
)

//go:embed certs/ccmadm-certs.service
var certsService string

//go:embed certs/ccmadm-certs.timer
var certsTimer []byte

// CertsService is the systemd unit that has the program renew this machine's certificates before they end.
func CertsService(program string) []byte {
	return []byte(strings.ReplaceAll(certsService, "${program}", program))
}

// CertsTimer is the systemd unit that starts it every day.
func CertsTimer() []byte { return bytes.Clone(certsTimer) }
