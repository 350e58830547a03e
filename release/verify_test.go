package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVerify(t *testing.T) {
	names, err := publishedFiles(made.dir)
	if err != nil {
		t.Fatal(err)
	}
	if number, err := verify(made.dir, made.publicKey()); err != nil || number != len(names)-3 {
		t.Errorf("got %d files, error %v, want %d", number, err, len(names)-3)
	}
}

// TestVerify_OneByte changes one byte of each file of a release in turn.
func TestVerify_OneByte(t *testing.T) {
	names, err := filesBelow(made.dir)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "cosign.pub")
	if err := os.WriteFile(key, read(t, made.publicKey()), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := copied(t)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			flip(t, filepath.Join(dir, name))
			if _, err := verify(dir, key); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got error %v, want one about %s", err, name)
			}
			flip(t, filepath.Join(dir, name))
			if _, err := verify(dir, key); err != nil {
				t.Errorf("changed back: %v", err)
			}
		})
	}
}

// TestVerify_Refuses: an attacker who changes a file and the list of digests with it has no key.
func TestVerify_Refuses(t *testing.T) {
	other, otherPublic := strangersKeys(t)
	tests := []struct {
		name, key, wantErr string
		change             func(t *testing.T, dir string)
	}{
		{"another key", otherPublic, "not a signature of SHA256SUMS", func(*testing.T, string) {}},
		{"a private key", other, "is not a public key", func(*testing.T, string) {}},
		{"a file that is not listed", made.publicKey(), "extra: not in SHA256SUMS", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, "extra"), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		{"a file that is missing", made.publicKey(), "install.sh: no such file", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Remove(filepath.Join(dir, "install.sh")); err != nil {
				t.Fatal(err)
			}
		}},
		{"a digest that was changed with its file", made.publicKey(), "SHA256SUMS.sig: not a signature", func(t *testing.T, dir string) {
			t.Helper()
			flip(t, filepath.Join(dir, "install.sh"))
			resum(t, dir, "install.sh")
		}},
		{"the same, signatures not looked at, by the provenance", "", "subject install.sh has digest", func(t *testing.T, dir string) {
			t.Helper()
			flip(t, filepath.Join(dir, "install.sh"))
			resum(t, dir, "install.sh")
		}},
		{"a path that leads out", "", "want a digest, two spaces and a file of this folder", func(t *testing.T, dir string) {
			t.Helper()
			line := strings.Repeat("0", 64) + "  ../outside\n"
			if err := os.WriteFile(filepath.Join(dir, sumsName), []byte(line), 0o644); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := copied(t)
			tt.change(t, dir)
			if _, err := verify(dir, tt.key); err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
}

// resum writes the digest that a file has now into SHA256SUMS.
func resum(t *testing.T, dir, name string) {
	t.Helper()
	sum, err := digest(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	listed, err := parseSums(string(read(t, filepath.Join(dir, sumsName))))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(read(t, filepath.Join(dir, sumsName))), listed[name], sum, 1)
	if err := os.WriteFile(filepath.Join(dir, sumsName), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSignature_OpenSSL: what verifies with OpenSSL, verifies with `cosign verify-blob --key`; both take ECDSA over SHA-256 in ASN.1.
func TestSignature_OpenSSL(t *testing.T) {
	der := filepath.Join(t.TempDir(), "sig.der")
	signature, err := base64.StdEncoding.DecodeString(string(read(t, filepath.Join(made.dir, signatureName))))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(der, signature, 0o644); err != nil {
		t.Fatal(err)
	}
	out := run(t, "openssl", "dgst", "-sha256", "-verify", made.publicKey(), "-signature", der, filepath.Join(made.dir, sumsName))
	if out != "Verified OK\n" {
		t.Errorf("got %q", out)
	}
}

func TestReadSigner_Refuses(t *testing.T) {
	dir := t.TempDir()
	text, p384 := filepath.Join(dir, "text"), filepath.Join(dir, "p384")
	if err := os.WriteFile(text, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384", "-out", p384)
	for file, want := range map[string]string{
		text: "is not PEM", p384: "want an ECDSA key of P-256", filepath.Join(dir, "none"): "no such file",
		made.publicKey(): "want an unencrypted PKCS #8 key",
	} {
		if _, err := readSigner(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", filepath.Base(file), err, want)
		}
	}
}
