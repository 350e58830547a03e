package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
)

const verifyPage, installPage = "../docs/tasks/verify-a-release.md", "../docs/tasks/install.md"

// TestPages has a shell run the blocks of the pages for users, with a release at an address of this machine. Programs that change the
// machine only print that they were called.
func TestPages(t *testing.T) {
	p := follow(t, made.dir)
	for _, tt := range []struct {
		page, block string
		want        []string
	}{
		{verifyPage, "-fLO $URL/cosign.pub", []string{"cosign.pub: OK", "ccmadm-archive-keyring.asc: OK"}},
		{verifyPage, "openssl dgst", []string{"Verified OK"}},
		{verifyPage, `_linux_amd64.tar.gz\$" SHA256SUMS`, []string{"ccmadm_v0.1.0_linux_amd64.tar.gz: OK"}},
		{verifyPage, "_provenance.json\n", []string{"ccmadm_v0.1.0_provenance.json: OK", "resolvedDependencies"}},
		{verifyPage, ".spdx.json\n", []string{"ccmadm_v0.1.0_linux_amd64.tar.gz.spdx.json: OK", "referenceLocator"}},
		{installPage, ".deb", []string{"ccmadm_0.1.0_amd64.deb: OK", "sudo apt-get install ./ccmadm_0.1.0_amd64.deb"}},
		{installPage, "x86_64.rpm", []string{
			"ccmadm-0.1.0-1.x86_64.rpm: OK", "sudo rpm --import ccmadm-archive-keyring.asc\nsudo dnf install ./ccmadm-0.1.0-1.x86_64.rpm",
		}},
		{installPage, "dnf install ccmadm-", []string{"sudo dnf install ccmadm-0.1.0\n"}}, // and not what a mirror has
	} {
		out, err := p.run(t, tt.page, tt.block)
		for _, want := range tt.want {
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("%s: the block with %q: error %v, want %q in\n%s", tt.page, tt.block, err, want, out)
			}
		}
	}
}

// TestPages_Keys: a key that the list has with another digest, or not at all, is not one of the release.
func TestPages_Keys(t *testing.T) {
	for _, key := range []string{publicKeyName, "ccmadm-archive-keyring.asc"} {
		changed, gone := copied(t), copied(t)
		flip(t, filepath.Join(changed, key))
		list := string(read(t, filepath.Join(gone, sumsName)))
		list = regexp.MustCompile(`(?m)^.* `+regexp.QuoteMeta(key)+"\n").ReplaceAllString(list, "")
		if err := os.WriteFile(filepath.Join(gone, sumsName), []byte(list), 0o644); err != nil {
			t.Fatal(err)
		}
		for served, want := range map[string]string{changed: key + ": FAILED", gone: "no properly formatted checksum lines found"} {
			if out, err := follow(t, served).run(t, verifyPage, "-fLO $URL/cosign.pub"); err == nil || !strings.Contains(out, want) {
				t.Errorf("error %v, want %q in\n%s", err, want, out)
			}
		}
	}
}

// TestPages_Replay: a server sends the signed list of an older release, and files that were changed. Their names are not in the list, and
// that is as bad as another digest.
func TestPages_Replay(t *testing.T) {
	older, err := made.release("v0.0.9")
	if err != nil {
		t.Fatal(err)
	}
	older.dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(older.dir, publicKeyName), read(t, made.publicKey()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := older.writeSums(); err != nil {
		t.Fatal(err)
	}
	server := copied(t)
	for _, name := range []string{sumsName, signatureName, bundleName} {
		if err := os.WriteFile(filepath.Join(server, name), read(t, filepath.Join(older.dir, name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := follow(t, server)
	if err := os.WriteFile(filepath.Join(p.dir, publicKeyName), read(t, made.publicKey()), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := p.run(t, verifyPage, "openssl dgst"); err != nil {
		t.Fatalf("the older list is signed: %v\n%s", err, out)
	}
	for _, tt := range []struct{ page, block, file string }{
		{verifyPage, `_linux_amd64.tar.gz\$" SHA256SUMS`, "ccmadm_v0.1.0_linux_amd64.tar.gz"},
		{verifyPage, "_provenance.json\n", "ccmadm_v0.1.0_provenance.json"},
		{verifyPage, ".spdx.json\n", "ccmadm_v0.1.0_linux_amd64.tar.gz.spdx.json"},
		{installPage, ".deb", "ccmadm_0.1.0_amd64.deb"},
		{installPage, "x86_64.rpm", "ccmadm-0.1.0-1.x86_64.rpm"},
	} {
		flip(t, filepath.Join(server, tt.file))
		if out, err := p.run(t, tt.page, tt.block); err == nil || strings.Contains(out, "sudo ") {
			t.Errorf("%s: the block with %q takes %s, which the list does not name: error %v\n%s", tt.page, tt.block, tt.file, err, out)
		}
	}
}

// TestPages_Repository: the file for dnf on the page has both signatures checked, by the key of the release, and there are both.
func TestPages_Repository(t *testing.T) {
	_, text, _ := strings.Cut(string(read(t, installPage)), "\n[ccmadm]\n")
	text, _, _ = strings.Cut(text, "```")
	for _, want := range []string{"gpgcheck=1", "repo_gpgcheck=1", "gpgkey=file:///etc/pki/rpm-gpg/ccmadm-archive-keyring.asc"} {
		if !strings.Contains("\n"+text, "\n"+want+"\n") {
			t.Errorf("no line %s in\n%s", want, text)
		}
	}
	keys, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(read(t, filepath.Join(made.dir, "ccmadm-archive-keyring.asc"))))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(made.dir, repodataFolder, "repomd.xml")
	list, signature := bytes.NewReader(read(t, name)), bytes.NewReader(read(t, name+".asc"))
	if _, err := openpgp.CheckArmoredDetachedSignature(keys, list, signature, nil); err != nil {
		t.Errorf("repomd.xml: %v", err)
	}
}

// reader is a user in a folder, with a release at a server.
type reader struct{ dir, url, programs string }

// follow has the release of a folder served, and downloads what the page verify-a-release begins with.
func follow(t *testing.T, served string) *reader {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(served)))
	t.Cleanup(server.Close)
	p := &reader{dir: t.TempDir(), url: server.URL, programs: t.TempDir()}
	for _, name := range []string{"sudo", "jq"} {
		text := "#!/bin/sh\necho " + name + ` "$@"` + "\n"
		if err := os.WriteFile(filepath.Join(p.programs, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := p.run(t, verifyPage, "-fLO $URL/ccmadm_${VERSION}_linux_amd64.tar.gz\n"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return p
}

// run has a shell run the one block of a page that has a text, and stop at the first command that fails.
func (p *reader) run(t *testing.T, page, text string) (string, error) {
	t.Helper()
	var found []string
	for i, part := range regexp.MustCompile("(?m)^ *```.*\n").Split(string(read(t, page)), -1) {
		if i%2 == 1 && strings.Contains(part, text) {
			found = append(found, part)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s: %d blocks have %q, want one", page, len(found), text)
	}
	const released = "https://github.com/ccmadm/ccmadm/releases/download/$VERSION"
	script := fmt.Sprintf("VERSION=v0.1.0 URL=%s\n%s", p.url, strings.ReplaceAll(found[0], released, p.url))
	cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", script)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "PATH="+p.programs+":"+os.Getenv("PATH"), "NO_PROXY=*")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
