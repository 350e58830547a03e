package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
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

// TestInstall_Retry: a server that is busy for a moment is asked again.
func TestInstall_Retry(t *testing.T) {
	files := http.FileServer(http.Dir(made.dir))
	busy := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy {
			busy = false
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	if out, err := install(t, server.URL, "", t.TempDir()); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestInstall_Interrupted: a signal on the way leaves no program and no temporary file, neither beside the target nor elsewhere.
func TestInstall_Interrupted(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir(made.dir)))
	defer server.Close()
	// Signals that this test was started without are the program's again.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(caught)
	for _, name := range []string{"INT", "TERM", "HUP"} {
		programs, temporary, target := t.TempDir(), t.TempDir(), t.TempDir()
		mv := "#!/bin/sh\nkill -" + name + " $PPID\nexit 1\n"
		if err := os.WriteFile(filepath.Join(programs, "mv"), []byte(mv), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := installer(t, server.URL, "", target)
		cmd.Env = append(cmd.Env, "PATH="+programs+":"+os.Getenv("PATH"), "TMPDIR="+temporary)
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%s: the script goes on:\n%s", name, out)
		}
		for _, dir := range []string{temporary, target} {
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%s: left %v, error %v", name, left, err)
			}
		}
	}
}

// TestInstall_Another: a program that was installed in another way is named, and which of the two the shell runs.
func TestInstall_Another(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir(made.dir)))
	defer server.Close()
	target, packaged := t.TempDir(), t.TempDir()
	mine, other := filepath.Join(target, "ccmadm"), filepath.Join(packaged, "ccmadm")
	if err := os.WriteFile(other, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ path, want string }{
		{target + ":" + packaged, "warning: another ccmadm is at " + other + "; the shell runs " + mine},
		{packaged + ":" + target, "warning: another ccmadm is at " + other + "; the shell runs " + other},
		{target, ""},
	} {
		if err := os.RemoveAll(mine); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a second time the same is replaced
			cmd := installer(t, server.URL, "", target)
			cmd.Env = append(cmd.Env, "PATH="+tt.path+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), tt.want) || tt.want == "" && strings.Contains(string(out), "another ccmadm") {
				t.Errorf("PATH %s: error %v, want %q in\n%s", tt.path, err, tt.want, out)
			}
		}
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
