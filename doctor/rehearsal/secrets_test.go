package rehearsal

import (
	"strings"
	"testing"
)

// A program may log what it was given: neither the copy of its log nor what is told of it has a credential.
func TestWords_Secrets(t *testing.T) {
	const secret = "hunter2hunter2"
	var log strings.Builder
	w := newLogParser(&log)
	for _, part := range []string{
		"E1122 09:00:00.1 1 x.go:1] error syncing 'w1': auth with password=" + secret[:5], secret[5:] + " fails, requeuing\n",
		"I1122 read -----BEGIN PRIVATE KEY-----\nI1122 " + secret + "\nI1122 -----END PRIVATE KEY-----\n",
		"E1122 09:00:00.1 1 x.go:1] failed to log in to https://u:" + secret + "@cloud.example.org",
	} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	w.end()
	about, times := w.errorOf("w1")
	for what, text := range map[string]string{"log": log.String(), "error": about, "end": w.final()} {
		if strings.Contains(text, secret) || text == "" {
			t.Errorf("%s: %q", what, text)
		}
	}
	if times != 1 || !strings.Contains(w.final(), "@cloud.example.org") || strings.Count(log.String(), "\n") != 5 {
		t.Errorf("%d times, at the end %q, log:\n%s", times, w.final(), log.String())
	}
}
