package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// The end of a bundle is that of the certificate that ends first, wherever it stands; no certificate has no end.
func TestFirstEnd(t *testing.T) {
	bundle, _, err := certutil.GenerateSelfSignedCertKey("one", nil, nil) // a leaf of a year, and its CA
	if err != nil {
		t.Fatal(err)
	}
	certificates, err := certutil.ParseCertsPEM(bundle)
	if err != nil {
		t.Fatal(err)
	}
	want := certificates[0].NotAfter
	for _, c := range certificates {
		if c.NotAfter.Before(want) {
			want = c.NotAfter
		}
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data  []byte
		file  string
		found bool
	}{
		"data": {data: bundle, found: true}, "a file": {file: file, found: true}, "data before a file": {data: bundle, file: "/nothing", found: true},
		"neither": {}, "no file": {file: "/nothing"}, "no certificate": {data: []byte("x")},
	} {
		if end, found := firstEnd(c.data, c.file); found != c.found || found && end != want.Unix() {
			t.Errorf("%s: got %s, %t, want %s, %t", name, time.Unix(end, 0), found, want, c.found)
		}
	}
}
