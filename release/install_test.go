package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestInstall(t *testing.T) {
	archive := "ccmadm_v0.1.0_linux_" + runtime.GOARCH + ".tar.gz"
	_, otherPublic := strangersKeys(t)
	tests := []struct {
		name, key, changed, want string
		installed                bool
	}{
		{name: "with the key", key: made.publicKey(), want: "ccmadm v0.1.0 installed to", installed: true},
		{name: "without a key", want: "signature not verified: CCMADM_PUBLIC_KEY names no key", installed: true},
		{name: "an archive that was changed", changed: archive, want: "nothing was installed"},
		{name: "a list that was changed", key: made.publicKey(), changed: sumsName, want: "SHA256SUMS is not signed by"},
		{name: "a signature that was changed", key: made.publicKey(), changed: signatureName, want: "SHA256SUMS is not signed by"},
		{name: "another key", key: otherPublic, want: "SHA256SUMS is not signed by"},
		{name: "a key that is not there", key: filepath.Join(t.TempDir(), "none.pub"), want: "SHA256SUMS is not signed by"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, target := copied(t), t.TempDir()
			if tt.changed != "" {
				flip(t, filepath.Join(dir, tt.changed))
			}
			server := httptest.NewServer(http.FileServer(http.Dir(dir)))
			defer server.Close()
			out, err := install(t, server.URL, tt.key, target)
			if (err == nil) != tt.installed || !strings.Contains(out, tt.want) {
				t.Errorf("error %v, want %q in\n%s", err, tt.want, out)
			}
			files, err := os.ReadDir(target)
			if err != nil || len(files) != map[bool]int{true: 1}[tt.installed] {
				t.Errorf("installed: %v, error %v", files, err)
			}
			if tt.installed && run(t, filepath.Join(target, "ccmadm")) != "ccmadm of a test\n" {
				t.Error("another program was installed")
			}
		})
	}
}

// TestInstall_NoRelease: a release that is not there is an error of the download, and nothing is installed.
func TestInstall_NoRelease(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	target := t.TempDir()
	out, err := install(t, server.URL, "", target)
	if files, _ := os.ReadDir(target); err == nil || !strings.Contains(out, "error: download "+server.URL+"/SHA256SUMS") || len(files) > 0 {
		t.Errorf("error %v, installed %v, output\n%s", err, files, out)
	}
}

// TestInstall_Umask: all users may run the program, whatever the umask of the one who installs it is.
func TestInstall_Umask(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir(made.dir)))
	defer server.Close()
	target := t.TempDir()
	cmd := installer(t, server.URL, "", target)
	cmd.Args = []string{"sh", "-c", `umask 077; . "$1"`, "sh", cmd.Args[1]}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(filepath.Join(target, "ccmadm"))
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o755 {
		t.Errorf("got mode %o, want 755", mode)
	}
}

func install(t *testing.T, base, key, target string) (string, error) {
	t.Helper()
	out, err := installer(t, base, key, target).CombinedOutput()
	return string(out), err
}

func installer(t *testing.T, base, key, target string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(made.dir, "install.sh"))
	cmd.Env = append(os.Environ(), "NO_PROXY=*", "CCMADM_BASE_URL="+base, "CCMADM_PUBLIC_KEY="+key, "CCMADM_INSTALL_DIR="+target)
	return cmd
}
