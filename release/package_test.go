package main

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/google/go-cmp/cmp"
	"github.com/sassoftware/go-rpmutils"
)

// installed are files that both packages have, beside man pages. The folder is where zsh looks for completions.
func installed(zsh string) []string {
	return []string{
		"/usr/share/zsh/" + zsh + "/_ccmadm",
		"/usr/bin/ccmadm",
		"/usr/lib/systemd/system/ccmadm-certs.service", "/usr/lib/systemd/system/ccmadm-certs.timer",
		"/usr/lib/systemd/system/ccmadm-kubelet.service",
		"/usr/lib/systemd/system-preset/80-ccmadm.preset",
		"/usr/share/bash-completion/completions/ccmadm",
		"/usr/share/fish/vendor_completions.d/ccmadm.fish",
		"/usr/share/doc/ccmadm/changelog.gz", "/usr/share/doc/ccmadm/copyright", "/usr/share/lintian/overrides/ccmadm",
		"/usr/share/man/man1/ccmadm.1.gz", "/usr/share/man/man1/ccmadm-certs-renew.1.gz",
	}
}

func TestDeb(t *testing.T) {
	file := filepath.Join(made.dir, "ccmadm_0.1.0_amd64.deb")
	list := run(t, "dpkg-deb", "-c", file)
	for _, path := range installed("vendor-completions") {
		if !strings.Contains(list, " ."+path+"\n") && !strings.Contains(list, " "+path+"\n") {
			t.Errorf("the package lacks %s", path)
		}
	}
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); fields[1] != "root/root" && fields[1] != "0/0" {
			t.Errorf("owner is %s: %s", fields[1], line)
		}
	}
	control := t.TempDir()
	run(t, "dpkg-deb", "-e", file, control)
	parts, err := os.ReadDir(control)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		if !slices.Contains([]string{"control", "md5sums", "prerm"}, part.Name()) {
			t.Errorf("the package has %s, want the script for its removal alone", part.Name())
		}
	}
	fields := map[string]string{"Package": "ccmadm", "Version": "0.1.0", "Architecture": "amd64", "Suggests": "kubeadm"}
	for field, want := range fields {
		if got := strings.TrimSpace(run(t, "dpkg-deb", "-f", file, field)); got != want {
			t.Errorf("%s: got %q, want %q", field, got, want)
		}
	}
}

func TestDeb_Content(t *testing.T) {
	root := t.TempDir()
	run(t, "dpkg-deb", "-x", filepath.Join(made.dir, "ccmadm_0.1.0_amd64.deb"), root)
	unit := string(read(t, filepath.Join(root, "usr/lib/systemd/system/ccmadm-kubelet.service")))
	if !strings.Contains(unit, "\nExecStart=/usr/bin/ccmadm join phase kubelet\n") {
		t.Errorf("the unit does not start the program of the package:\n%s", unit)
	}
	got := string(read(t, filepath.Join(root, "usr/share/bash-completion/completions/ccmadm")))
	if got != "# completions of ccmadm for bash\n" {
		t.Errorf("completions: got %q", got)
	}
	page := unpacked(t, filepath.Join(root, "usr/share/man/man1/ccmadm-certs-renew.1.gz"))
	for _, want := range []string{
		`.TH "CCMADM-CERTS-RENEW" "1" "January 2025"`, ".SH NAME", "ccmadm-certs-renew - Sign",
		".SH SYNOPSIS\n\\fBccmadm certs renew [flags]\\fP", ".SH DESCRIPTION", ".SH OPTIONS", `\fBccmadm-certs(1)\fP`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the man page lacks %q:\n%s", want, page)
		}
	}
	info, err := os.Stat(filepath.Join(root, "usr/bin/ccmadm"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("/usr/bin/ccmadm: mode %v, error %v", info.Mode(), err)
	}
}

// TestDeb_Presets: a first boot enables all units that presets do not name, and none of the package's.
func TestDeb_Presets(t *testing.T) {
	root := t.TempDir()
	run(t, "dpkg-deb", "-x", filepath.Join(made.dir, "ccmadm_0.1.0_amd64.deb"), root)
	units, err := filepath.Glob(filepath.Join(root, "usr/lib/systemd/system/*"))
	if err != nil || len(units) == 0 {
		t.Fatalf("units %v, error %v", units, err)
	}
	presets, _ := filepath.Glob(filepath.Join(root, "usr/lib/systemd/system-preset/*.preset"))
	var list []byte
	for _, file := range presets {
		list = append(list, read(t, file)...)
	}
	text := string(list)
	for _, unit := range units {
		if line := "disable " + filepath.Base(unit) + "\n"; !strings.Contains(text, line) {
			t.Errorf("no preset has %q:\n%s", line, text)
		}
	}
	if _, err := exec.LookPath("systemctl"); err != nil {
		return
	}
	run(t, "systemctl", "--root="+root, "preset-all")
	enabled, err := filepath.Glob(filepath.Join(root, "etc/systemd/system/*/*ccmadm*"))
	if err != nil || len(enabled) > 0 {
		t.Errorf("a first boot enables %v, error %v", enabled, err)
	}
}

// TestRun_Environment: the program gets none of the keys, and no token by which a workflow signs.
func TestRun_Environment(t *testing.T) {
	r, err := made.release("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	r.work, r.programs = t.TempDir(), map[string]string{}
	for _, name := range []string{"COSIGN_PRIVATE_KEY", "GPG_PRIVATE_KEY_FILE", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"} {
		t.Setenv(name, "S3CRET")
	}
	out, err := r.run(t.Context(), "env")
	if want := "HOME=" + r.work + "\n"; err != nil || string(out) != want {
		t.Errorf("error %v, got\n%swant\n%s", err, out, want)
	}
}

// TestDebianVersion: a candidate is older than its release for dpkg.
func TestDebianVersion(t *testing.T) {
	run(t, "dpkg", "--compare-versions", debianVersion("v0.1.0-rc.1"), "lt", debianVersion("v0.1.0"))
	r, err := made.release("v0.1.0-rc.1")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"ccmadm_0.1.0-rc.1_arm64.deb", "ccmadm-0.1.0-rc.1-1.aarch64.rpm"} {
		if got := r.packageName(packagers()[i], platform{"linux", "arm64"}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestRPM(t *testing.T) {
	p, err := readRPM(made.dir, "ccmadm-0.1.0-1.aarch64.rpm")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range p.files {
		names = append(names, f.Name())
		if f.UserName() != "root" {
			t.Errorf("owner of %s is %s", f.Name(), f.UserName())
		}
	}
	for _, path := range installed("site-functions") {
		if !slices.Contains(names, path) {
			t.Errorf("the package lacks %s", path)
		}
	}
	if script := p.text(rpmutils.PREUN); script != string(read(t, "files/prerm.sh")) {
		t.Errorf("before its removal runs %q", script)
	}
	for _, tag := range []int{rpmutils.PREIN, rpmutils.POSTIN, rpmutils.POSTUN} {
		if p.header.HasTag(tag) {
			t.Errorf("the package has a script: %q", p.text(tag))
		}
	}
	if diff := cmp.Diff(rpmVersion{"0", "0.1.0", "1"}, p.version); diff != "" {
		t.Errorf("version (-want +got):\n%s", diff)
	}
}

// TestPackage_Removed: a removal says which units of the machine lose their program. It is never refused, and an upgrade says nothing.
func TestPackage_Removed(t *testing.T) {
	control := t.TempDir()
	run(t, "dpkg-deb", "-e", filepath.Join(made.dir, "ccmadm_0.1.0_amd64.deb"), control)
	const certs, kubelet = "ccmadm-certs.service", "ccmadm-kubelet.service"
	for _, tt := range []struct {
		name, program string
		units, args   []string
		want          []string
	}{
		{
			name: "dpkg", program: "/usr/bin/ccmadm", units: []string{certs}, args: []string{"remove"},
			want: []string{certs, "`ccmadm apply phase kubeconfig`"},
		},
		{name: "rpm", program: "/usr/bin/ccmadm", units: []string{certs}, args: []string{"0"}, want: []string{certs, "is no longer renewed"}},
		{
			name: "both units", program: "/usr/bin/ccmadm", units: []string{certs, kubelet}, args: []string{"remove"},
			want: []string{certs, kubelet, "`ccmadm join phase kubelet --install-unit`"},
		},
		{name: "another program", program: "/usr/local/bin/ccmadm", units: []string{certs, kubelet}, args: []string{"remove"}},
		{name: "no units", args: []string{"remove"}},
		{name: "an upgrade by dpkg", program: "/usr/bin/ccmadm", units: []string{certs}, args: []string{"upgrade", "0.2.0"}},
		{name: "an upgrade by rpm", program: "/usr/bin/ccmadm", units: []string{certs}, args: []string{"1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			folder := filepath.Join(root, "etc", "systemd", "system")
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, unit := range tt.units {
				text := read(t, filepath.Join("..", "templates", map[string]string{certs: "certs", kubelet: "kubelet"}[unit], unit))
				text = bytes.ReplaceAll(text, []byte("${program}"), []byte(tt.program))
				if err := os.WriteFile(filepath.Join(folder, unit), text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(control, "prerm"), tt.args...)
			cmd.Env = append(os.Environ(), "DPKG_ROOT="+root)
			out, err := cmd.CombinedOutput()
			if err != nil || len(tt.want) == 0 && len(out) > 0 {
				t.Errorf("error %v, output\n%s", err, out)
			}
			for _, want := range tt.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}

// TestRPM_Signature: rpm and dnf verify each package by itself, with the key of the repository.
func TestRPM_Signature(t *testing.T) {
	ring := func(file string) openpgp.EntityList {
		keys, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(read(t, file)))
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	other := filepath.Join(t.TempDir(), "other.asc")
	if err := writeGPGKey(other); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ccmadm-0.1.0-1.x86_64.rpm", "ccmadm-0.1.0-1.aarch64.rpm"} {
		data := read(t, filepath.Join(made.dir, name))
		_, found, err := rpmutils.Verify(bytes.NewReader(data), ring(filepath.Join(made.dir, "ccmadm-archive-keyring.asc")))
		if err != nil || len(found) == 0 {
			t.Errorf("%s: %d signatures, error %v", name, len(found), err)
			continue
		}
		// Of the commit's time, so that the same commit gives the same bytes.
		if made := found[0].CreationTime.UTC(); made.Year() != 2025 {
			t.Errorf("%s was signed at %s", name, made)
		}
		if _, _, err := rpmutils.Verify(bytes.NewReader(data), ring(other)); err == nil {
			t.Errorf("%s is signed by another key", name)
		}
	}
}

// TestApt has apt itself read the folder, with the key that is in it and no other, and download the package.
func TestApt(t *testing.T) {
	dir := copied(t)
	if out, err := apt(t, dir, "update"); err != nil {
		t.Fatalf("apt-get update: %v\n%s", err, out)
	}
	dir = copied(t)
	flip(t, filepath.Join(dir, "Packages"))
	flip(t, filepath.Join(dir, "Packages.gz"))
	if out, err := apt(t, dir, "update"); err == nil {
		t.Errorf("apt-get update accepts a list that was changed:\n%s", out)
	}
	dir = copied(t)
	flip(t, filepath.Join(dir, "InRelease"))
	flip(t, filepath.Join(dir, "Release"))
	if out, err := apt(t, dir, "update"); err == nil {
		t.Errorf("apt-get update accepts a Release that was changed:\n%s", out)
	}
}

func TestApt_Download(t *testing.T) {
	dir := copied(t)
	if out, err := apt(t, dir, "update"); err != nil {
		t.Fatalf("apt-get update: %v\n%s", err, out)
	}
	if out, err := apt(t, dir, "download", "ccmadm:amd64"); err != nil {
		t.Fatalf("apt-get download: %v\n%s", err, out)
	}
	const name = "ccmadm_0.1.0_amd64.deb"
	if string(read(t, filepath.Join(dir, "..", "apt", name))) != string(read(t, filepath.Join(made.dir, name))) {
		t.Error("apt has downloaded another package")
	}
}

// apt runs apt-get in a root of its own beside the folder, where only that folder is a source.
func apt(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	root := filepath.Join(dir, "..", "apt")
	for _, sub := range []string{"lists/partial", "cache/archives/partial", "parts"} {
		if err := os.MkdirAll(filepath.Join(root, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	source := "deb [signed-by=" + filepath.Join(made.dir, "ccmadm-archive-keyring.asc") + "] file:" + dir + " ./\n"
	for file, text := range map[string]string{"sources.list": source, "status": ""} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	options := []string{
		"-o", "Dir::State=" + root, "-o", "Dir::State::status=" + filepath.Join(root, "status"),
		"-o", "Dir::Cache=" + filepath.Join(root, "cache"),
		"-o", "Dir::Etc::SourceList=" + filepath.Join(root, "sources.list"), "-o", "Dir::Etc::SourceParts=" + filepath.Join(root, "parts"),
		"-o", "APT::Architecture=amd64", "-o", "APT::Architectures=amd64", "-o", "APT::Sandbox::User=", "-o", "APT::Update::Error-Mode=any",
	}
	cmd := exec.CommandContext(t.Context(), "apt-get", append(options, args...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestRepodata: dnf follows repomd.xml to the lists, and the lists to the packages, by digests.
func TestRepodata(t *testing.T) {
	var repomd struct {
		Data []struct {
			Type     string `xml:"type,attr"`
			Checksum string `xml:"checksum"`
			Location struct {
				Href string `xml:"href,attr"`
			} `xml:"location"`
		} `xml:"data"`
	}
	if err := xml.Unmarshal(read(t, filepath.Join(made.dir, "repodata", "repomd.xml")), &repomd); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, d := range repomd.Data {
		kinds = append(kinds, d.Type)
		if sum, err := digest(filepath.Join(made.dir, d.Location.Href)); err != nil || sum != d.Checksum {
			t.Errorf("%s has digest %s, repomd.xml says %s; error %v", d.Location.Href, sum, d.Checksum, err)
		}
	}
	if diff := cmp.Diff([]string{"primary", "filelists", "other"}, kinds); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
	var list struct {
		Packages []struct {
			Arch     string `xml:"arch"`
			Checksum string `xml:"checksum"`
			Location struct {
				Href string `xml:"href,attr"`
			} `xml:"location"`
		} `xml:"package"`
	}
	if err := xml.Unmarshal([]byte(unpacked(t, filepath.Join(made.dir, "repodata", "primary.xml.gz"))), &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Packages {
		if sum, err := digest(filepath.Join(made.dir, p.Location.Href)); err != nil || sum != p.Checksum {
			t.Errorf("%s has digest %s, the list says %s; error %v", p.Location.Href, sum, p.Checksum, err)
		}
	}
	if len(list.Packages) != 2 || list.Packages[0].Arch != "x86_64" || list.Packages[1].Arch != "aarch64" {
		t.Errorf("packages: %+v", list.Packages)
	}
}

func unpacked(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
