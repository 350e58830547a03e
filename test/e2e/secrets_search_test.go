package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// search reads what all machines have collected, and what ccmadm has written there, and returns how many bytes that is.
func (s *secrets) search(t *testing.T) int {
	t.Helper()
	real := s.real(t)
	size := 0
	for _, m := range s.nodes {
		encoded := s.must(t, m, "tar cz -C / --ignore-failed-read root/got etc/ccmadm 2>/dev/null | base64 -w 0")
		data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		files := 0
		for archive := tar.NewReader(unpacked); ; files++ {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			size += len(content)
			s.judge(t, m, header, string(content), real)
		}
		t.Logf("%s: %d files", m, files)
	}
	return size
}

// judge searches one file.
func (s *secrets) judge(t *testing.T, machine string, header *tar.Header, content string, real []string) {
	t.Helper()
	path := "/" + header.Name
	found := s.found(meant(content))
	if slices.Contains(secretFiles, path) {
		if header.Mode&0o077 != 0 {
			t.Errorf("%s: %s has mode %o", machine, path, header.Mode)
		}
		return
	}
	for _, secret := range found {
		s.hits++
		t.Errorf("%s: %s has a secret of %s:\n%s", machine, path, s.where(secret), around(content, secret))
	}
	for _, secret := range real {
		if strings.Contains(meant(content), secret) {
			s.hits++
			t.Errorf("%s: %s has a real key or token of the cluster", machine, path)
		}
	}
}

// meant leaves out what is printed to be used: join commands, the key of kubeadm's Secret with certificates, and documents
// of kind Secret.
func meant(content string) string {
	var kept []string
	for document := range strings.SplitSeq(content, "\n---\n") {
		if !strings.Contains("\n"+document, "\nkind: Secret\n") {
			kept = append(kept, document)
		}
	}
	var out strings.Builder
	key := false
	for line := range strings.Lines(strings.Join(kept, "\n---\n")) {
		joins := strings.Contains(line, " join ") || strings.Contains(line, "--discovery-token") || strings.Contains(line, "--control-plane --certificate-key") ||
			strings.HasPrefix(line, "[bootstrap-token] Using token: ")
		if !joins && !key {
			out.WriteString(line)
		}
		key = strings.Contains(line, "Using certificate key:")
	}
	return out.String()
}

// around is where a secret stands, if it stands there as it is.
func around(content, secret string) string {
	at := strings.Index(content, secret[:12])
	if at < 0 {
		return "encoded, or over several lines"
	}
	return content[max(0, at-200):min(len(content), at+100)]
}

// real are keys of the machines, and values of all Secrets of the cluster.
func (s *secrets) real(t *testing.T) []string {
	t.Helper()
	out := s.must(t, "cp1", `for f in /etc/kubernetes/*.conf /etc/kubernetes/pki/*.key /etc/kubernetes/pki/etcd/*.key; do
  awk '/client-key-data|token:/ {print substr($2, 1, 60)} /^[A-Za-z0-9+\/=]{60}/ {print}' $f; done | sort -u
kubectl --kubeconfig /etc/kubernetes/admin.conf get secrets -A -o go-template='{{range .items}}{{range .data}}{{.}}{{"\n"}}{{end}}{{end}}'`)
	var list []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if len(line) < 24 {
			continue // a word such as "true"
		}
		list = append(list, line)
		if plain, err := base64.StdEncoding.DecodeString(line); err == nil && utf8.Valid(plain) && len(plain) >= 16 && !bytes.Contains(plain, []byte("kubeadm")) &&
			!bytes.ContainsAny(plain, "\n ") && !bytes.HasPrefix(plain, []byte("system:")) {
			list = append(list, string(plain))
		}
	}
	if len(list) < 20 {
		t.Errorf("only %d real secrets were found", len(list))
	}
	t.Logf("%d real keys and tokens are searched for, too", len(list))
	return list
}
