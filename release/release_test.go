package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWrite_SameInputSameBytes(t *testing.T) {
	again := filepath.Join(t.TempDir(), "dist")
	r, err := made.release("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.write(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{sumsName, signatureName, bundleName} {
		first, second := read(t, filepath.Join(made.dir, name)), read(t, filepath.Join(again, name))
		if diff := cmp.Diff(string(first), string(second)); diff != "" {
			t.Errorf("%s differs between two releases of one commit:\n%s", name, diff)
		}
	}
}

func TestWrite_Files(t *testing.T) {
	names, err := filesBelow(made.dir)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, program := range []string{"ccmadm", "cloud-controller-manager", "node-agent"} {
		platforms := []string{"linux_amd64", "linux_arm64"}
		if program == "ccmadm" {
			platforms = append(platforms, "darwin_amd64", "darwin_arm64")
		}
		for _, on := range platforms {
			want = append(want, program+"_v0.1.0_"+on+".tar.gz", program+"_v0.1.0_"+on+".tar.gz.spdx.json")
		}
		want = append(want, program+"_v0.1.0_image.tar", program+"_v0.1.0_image.tar.spdx.json")
	}
	want = append(want, "ccmadm_0.1.0_amd64.deb", "ccmadm_0.1.0_arm64.deb", "ccmadm-0.1.0-1.x86_64.rpm", "ccmadm-0.1.0-1.aarch64.rpm",
		"Packages", "Packages.gz", "Release", "InRelease", "Release.gpg", "ccmadm-archive-keyring.asc",
		"repodata/primary.xml.gz", "repodata/filelists.xml.gz", "repodata/other.xml.gz", "repodata/repomd.xml", "repodata/repomd.xml.asc",
		"ccmadm_v0.1.0_repodata.tar.gz",
		"ccmadm-0.1.0.tgz", "install.sh", "ccmadm.krew.yaml", "ccmadm.rb", "ccmadm_v0.1.0.openvex.json", "ccmadm_v0.1.0_provenance.json",
		"ccmadm_v0.1.0_provenance.sigstore.json",
		"cosign.pub", "SHA256SUMS", "SHA256SUMS.sig", "SHA256SUMS.sigstore.json")
	if diff := cmp.Diff(set(want), set(names)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestWrite_Unsigned: without keys there is a release, and nothing in it looks like a signature.
func TestWrite_Unsigned(t *testing.T) {
	r, err := made.release("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	var progress strings.Builder
	r.signer, r.openPGP, r.progress = nil, nil, &progress
	dir := filepath.Join(t.TempDir(), "dist")
	if err := r.write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(progress.String(), "unsigned: COSIGN_PRIVATE_KEY_FILE is not set") {
		t.Errorf("progress does not say that the release is unsigned:\n%s", progress.String())
	}
	for _, name := range []string{signatureName, bundleName, publicKeyName, "InRelease", "Release.gpg"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("an unsigned release has %s", name)
		}
	}
	if _, err := verify(dir, made.publicKey()); err == nil || !strings.Contains(err.Error(), "not signed") {
		t.Errorf("got error %v, want that it is not signed", err)
	}
}

func TestWrite_Refuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letter.txt"), []byte("dear"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := made.release("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.write(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "is not a release") {
		t.Errorf("got error %v, want that the folder is not a release", err)
	}
	if string(read(t, filepath.Join(dir, "letter.txt"))) != "dear" {
		t.Error("the file in the folder was changed")
	}
}

// TestWrite_LeavesNothing: a release that cannot be finished leaves the former one as it was, and no folder beside it.
func TestWrite_LeavesNothing(t *testing.T) {
	output := copied(t)
	before := read(t, filepath.Join(output, sumsName))
	r, err := made.release("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	r.source = t.TempDir() // without a licence
	if err := r.write(t.Context(), output); err == nil || !strings.Contains(err.Error(), "LICENSE") {
		t.Errorf("got error %v, want that LICENSE is missing", err)
	}
	if string(before) != string(read(t, filepath.Join(output, sumsName))) {
		t.Error("the former release was changed")
	}
	if left, err := os.ReadDir(filepath.Dir(output)); err != nil || len(left) != 1 {
		t.Errorf("left beside the release: %v, error %v", left, err)
	}
}

func TestNewRelease_Refuses(t *testing.T) {
	repo := t.TempDir()
	commit := func(message string) {
		run(t, "git", "-C", repo, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "--allow-empty", "-m", message)
	}
	run(t, "git", "init", "--quiet", repo)
	commit("first")
	run(t, "git", "-C", repo, "tag", "v0.1.0")
	if _, err := newRelease(t.Context(), "v0.1.0", repo, nil); err != nil {
		t.Errorf("a tagged commit: %v", err)
	}
	commit("second")
	if _, err := newRelease(t.Context(), "v0.1.0", repo, nil); err == nil || !strings.Contains(err.Error(), "git checkout v0.1.0") {
		t.Errorf("a tag elsewhere: got error %v", err)
	}
	for _, version := range []string{"", "0.1.0", "v0.1", "v0.1.0-dirty", "v0.1.0 --output"} {
		if _, err := newRelease(t.Context(), version, repo, nil); err == nil || !strings.Contains(err.Error(), "want v1.2.3") {
			t.Errorf("version %q: got error %v", version, err)
		}
	}
	if err := os.WriteFile(filepath.Join(repo, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := newRelease(t.Context(), "v0.2.0", repo, nil); err == nil || !strings.Contains(err.Error(), "the checkout has changes") {
		t.Errorf("a checkout with changes: got error %v", err)
	}
}

func TestCheckBinary(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	for _, on := range programs()[0].platforms {
		if err := made.compile(t.Context(), "ccmadm", on, file); err != nil {
			t.Fatal(err)
		}
		for _, as := range programs()[0].platforms {
			if err := checkBinary(file, as); (err == nil) != (on == as) {
				t.Errorf("a program for %s as one for %s: %v", on, as, err)
			}
		}
	}
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := checkBinary(shell, platform{"linux", "amd64"}); err == nil || !strings.Contains(err.Error(), "not static") {
		t.Errorf("%s, which has a loader: got error %v", shell, err)
	}
}

func set(names []string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}
