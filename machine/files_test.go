package machine

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiskFiles_Write(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etc", "x.yaml")
	write := func(content string, want bool) {
		t.Helper()
		got, err := diskFiles{"/"}.Write(File{Path: path, Data: []byte(content), Mode: 0o640})
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("write %q: changed = %t, want %t", content, got, want)
		}
	}
	write("one\n", true)
	write("one\n", false)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	write("two\n", true)

	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode after a rewrite is %#o, want the one the administrator chose, 0600", info.Mode().Perm())
	}
	previous, err := os.ReadFile(PreviousName(path))
	if err != nil || string(previous) != "one\n" {
		t.Errorf("previous content is %q (%v), want %q", previous, err, "one\n")
	}

	if removed, err := (diskFiles{"/"}).Remove(path); !removed || err != nil {
		t.Errorf("remove: %t, %v", removed, err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// Configuration management links a file to its own store. The link stays, and what it leads to is written.
func TestDiskFiles_Write_BehindALink(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"etc", "store"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	stored := filepath.Join(root, "store/kubelet")
	if err := os.WriteFile(stored, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"absolute": "/store/kubelet", "relative": "../store/kubelet", "twice": "relative", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(root, "etc", name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"absolute", "relative", "twice"} {
		if _, err := (diskFiles{root}).Write(File{Path: "/etc/" + name, Data: []byte(name), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(stored); err != nil || string(got) != name {
			t.Errorf("%s: the file behind the link has %q, %v", name, got, err)
		}
		if _, err := os.Readlink(filepath.Join(root, "etc", name)); err != nil {
			t.Errorf("%s is no link any more: %v", name, err)
		}
	}
	_, err := (diskFiles{root}).Write(File{Path: "/etc/loop", Data: []byte("x"), Mode: 0o644})
	if err == nil || !strings.Contains(err.Error(), "write /etc/loop: open /etc/loop: too many levels of symbolic links") {
		t.Errorf("a loop: %v", err)
	}
}

// A folder is a link, too: what a relative link in it leads to is where the kernel finds it.
func TestDiskFiles_Write_InALinkedFolder(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"etc", "srv/kubernetes", "srv/secrets"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	stored := filepath.Join(root, "srv/secrets/ccm.conf")
	for name, to := range map[string]string{"etc/kubernetes": "/srv/kubernetes", "srv/kubernetes/ccm.conf": "../secrets/ccm.conf"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (diskFiles{root}).Write(File{Path: "/etc/kubernetes/ccm.conf", Data: []byte("key"), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(stored); err != nil || string(got) != "key" {
		t.Errorf("the file behind the links has %q, %v", got, err)
	}
	if _, err := os.Lstat(filepath.Join(root, "etc/secrets")); err == nil {
		t.Error("the key is where no program looks for it")
	}
}

// A file of credentials that everybody may read is shown as changed, whatever its content.
func TestPrintFiles_Write_Mode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(path, []byte("key"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		opaque bool
		want   string
	}{{true, "[dryrun] would change the mode of " + path + " from 0644 to 0600\n"}, {false, ""}} {
		var out bytes.Buffer
		changed, err := printFiles{"/", &out, nil}.Write(File{Path: path, Data: []byte("key"), Mode: 0o600, Opaque: tt.opaque})
		if err != nil || changed != (tt.want != "") || out.String() != tt.want {
			t.Errorf("opaque %t: changed %t, %q, %v", tt.opaque, changed, out.String(), err)
		}
	}
}

func TestDiskFiles_WriteToAFullDisk(t *testing.T) {
	// /dev/full refuses every write; a directory below it cannot be made, and the error names the file.
	_, err := diskFiles{"/"}.Write(File{Path: "/dev/full/x", Data: []byte("x"), Mode: 0o600})
	if err == nil || !strings.Contains(err.Error(), "/dev/full/x") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func TestPrintFiles_Write(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeadm.yaml")
	if err := os.WriteFile(path, []byte("token: abcdef.0123456789abcdef\nname: a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p := printFiles{"/", &out, func(data []byte) []byte {
		return bytes.ReplaceAll(data, []byte("0123456789abcdef"), []byte("<hidden>"))
	}}
	changed, err := p.Write(File{Path: path, Data: []byte("token: abcdef.0123456789abcdef\nname: b\n"), Mode: 0o600})
	if err != nil || !changed {
		t.Fatalf("changed = %t, %v", changed, err)
	}
	want := "[dryrun] would write " + path + "\ndiff " + path + " " + path + "\n--- " + path + "\n+++ " + path +
		"\n@@ -1,2 +1,2 @@\n token: abcdef.<hidden>\n-name: a\n+name: b\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("diff (-want +got):\n%s", diff)
	}
	if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), "name: a") {
		t.Errorf("a dry run changed the file: %q, %v", data, err)
	}

	out.Reset()
	if _, err := p.Write(File{Path: path, Data: []byte("PRIVATE KEY"), Mode: 0o600, Opaque: true}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "PRIVATE") {
		t.Errorf("an opaque file is shown: %s", out.String())
	}
}

func TestDiskFiles_Write_CredentialsAreForNobodyElse(t *testing.T) {
	m := At(t.TempDir())
	path := m.Path("/cloud.conf")
	if err := os.WriteFile(path, []byte("plain settings"), 0o644); err != nil {
		t.Fatal(err)
	}
	mode := func(path string) os.FileMode {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	secret := File{Path: "/cloud.conf", Data: []byte("a password"), Mode: 0o600, Opaque: true}
	if changed, err := m.Files.Write(secret); err != nil || !changed {
		t.Fatalf("changed = %t, %v", changed, err)
	}
	if got, previous := mode(path), mode(PreviousName(path)); got != 0o600 || previous != 0o600 {
		t.Errorf("modes are %o and %o of what was there before, want 600", got, previous)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if changed, err := m.Files.Write(secret); err != nil || !changed || mode(path) != 0o600 {
		t.Errorf("the same content in a file that all may read: changed = %t, %v, mode %o", changed, err, mode(path))
	}
}

func TestDiskFiles_Write_KeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away: an ordinary user's file has this owner before and after")
	}
	m := At(t.TempDir())
	path := m.Path("/x")
	if err := os.WriteFile(path, []byte("one"), 0o640); err != nil {
		t.Fatal(err)
	}
	const want = 65532
	if err := os.Chown(path, want, want); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Files.Write(File{Path: "/x", Data: []byte("two"), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := int(info.Sys().(*syscall.Stat_t).Uid); got != want {
		t.Errorf("owner is %d, want %d", got, want)
	}
}

// A process that is killed while it writes leaves a file of no use, which goes with the one that it was to be.
func TestDiskFiles_RemoveUnfinished(t *testing.T) {
	root := t.TempDir()
	stays := []string{".record.yaml12a", ".record.yaml", "record.yaml.12", ".other.yaml12"}
	for _, name := range append([]string{"record.yaml", ".record.yaml8021", "..record.yaml.previous77"}, stays...) {
		if err := os.WriteFile(filepath.Join(root, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if removed, err := (diskFiles{root}).Remove("/record.yaml"); err != nil || !removed {
		t.Fatal(removed, err)
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) != len(stays) {
		t.Errorf("left are %v, %v; want %v", left, err, stays)
	}
}
