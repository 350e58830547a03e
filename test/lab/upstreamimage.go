//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ccmadm/ccmadm/test/lab/image"
)

// testImageFormat changes when the images of the tests are put together in another way.
const testImageFormat = "5"

// testPackages are what these images have on top of the machines' Debian.
func testPackages() []string {
	return []string{"wget", "bind9-dnsutils", "bind9-host", "netcat-openbsd", "iperf", "nginx-light", "busybox"}
}

// testPrograms are what scripts of the tests call, with the place where Debian has it. The shell is bash: some tests
// say [[, which dash does not know.
func testPrograms() map[string]string {
	programs := map[string]string{
		"sh": "/usr/bin/bash", "awk": "/usr/bin/mawk", "nc": "/usr/bin/nc.openbsd", "nginx": "/usr/sbin/nginx",
		"which": "/usr/bin/which.debianutils", "conntrack": "/usr/sbin/conntrack", "sysctl": "/usr/sbin/sysctl",
	}
	for name := range strings.FieldsSeq("bash ip ss base64 basename cat chmod chown cp curl cut date dd df dig dirname du echo egrep " +
		"env expr false find getent grep gzip head host hostname id iperf ipcs kill ln ls md5sum mkdir mktemp mount mv nproc nsenter " +
		"nslookup od pgrep printf ps pwd readlink realpath rm rmdir sed seq sha256sum sleep sort stat stty sync tail tar tee test " +
		"timeout touch tr true tty umount uname uniq unshare wc wget whoami xargs yes") {
		programs[name] = "/usr/bin/" + name
	}
	return programs
}

// testFiles are what these programs read. The account is that of agnhost's own image.
func testFiles() map[string]string {
	return map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n" +
			"user-defined-in-image:x:1000:1000::/:/bin/sh\n",
		"/etc/group": "root:x:0:\nnogroup:x:65534:\nuser-defined-in-image:x:1000:\n" +
			"group-defined-in-image:x:50000:user-defined-in-image\n",
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
		"/etc/nginx/nginx.conf": "daemon off;\nerror_log stderr;\nevents {}\nhttp {\n  access_log /dev/stdout;\n" +
			"  server { listen 80; listen [::]:80; root /usr/share/nginx/html; }\n}\n",
		"/usr/share/nginx/html/index.html": "<title>Welcome to nginx!</title>\n",
		"/uploads/.keep":                   "",
		"/var/lib/nginx/.keep":             "",
		"/var/log/nginx/.keep":             "",
		"/run/.keep":                       "",
	}
}

// testRoot is a copy of the machines' Debian with the further packages unpacked.
func (m imageMaker) testRoot(ctx context.Context, work string) (string, error) {
	root := filepath.Join(work, "root")
	if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o755)); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, "cp", "-a", m.debian, root).CombinedOutput(); err != nil {
		return "", fmt.Errorf("copy Debian: %w: %s", err, lastLines(string(out), 3))
	}
	archives, err := m.packages(ctx, testPackages())
	if err != nil {
		return "", err
	}
	debs, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil {
		return "", err
	}
	for _, deb := range debs {
		// Debian's /bin is a link, which dpkg-deb -x would replace.
		unpack := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c",
			`dpkg-deb --fsys-tarfile "$0" | tar -x --keep-directory-symlink -C "$1"`, deb, root)
		if out, err := unpack.CombinedOutput(); err != nil {
			return "", fmt.Errorf("unpack %s: %w: %s", filepath.Base(deb), err, lastLines(string(out), 3))
		}
	}
	return root, nil
}

// programFiles maps the programs, below /bin and /usr/bin as tests call either, with their libraries.
func programFiles(root string) (map[string]string, error) {
	files := map[string]string{}
	for name, place := range testPrograms() {
		if err := addWithLibraries(files, root, place); err != nil && !isScript(root, place) {
			return nil, err
		}
		files["/bin/"+name], files["/usr/bin/"+name] = filepath.Join(root, place), filepath.Join(root, place)
	}
	return files, nil
}

// busybox is an image of what Debian's BusyBox has, which ends at once where a pod has no command. Its shell is that of the
// other image, bash: BusyBox 1.35 drops variables whose name has a dash, and upstream's image of a later one does not.
func busybox(ctx context.Context, root string, files map[string]string) (image.Spec, error) {
	const program = "/bin/busybox"
	spec := image.Spec{Files: map[string]string{}, Links: map[string]string{}, Command: []string{"sh"}}
	place, err := filepath.EvalSymlinks(filepath.Join(root, program))
	if err != nil {
		return spec, err
	}
	for _, each := range []string{strings.TrimPrefix(place, root), testPrograms()["sh"]} {
		if err := addWithLibraries(spec.Files, root, each); err != nil {
			return spec, err
		}
	}
	spec.Files[program] = place
	for _, name := range []string{"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/bin/sh"} {
		spec.Files[name] = files[name]
	}
	spec.Links["/usr/bin/sh"] = "../../bin/sh"
	list, err := exec.CommandContext(ctx, place, "--list").Output()
	if err != nil {
		return spec, fmt.Errorf("list the programs of BusyBox: %w", err)
	}
	for name := range strings.FieldsSeq(string(list)) {
		if name != "busybox" && name != "sh" {
			spec.Links["/bin/"+name], spec.Links["/usr/bin/"+name] = "busybox", "../../bin/busybox"
		}
	}
	return spec, nil
}

func isScript(root, place string) bool {
	content, err := os.ReadFile(filepath.Join(root, place))
	return err == nil && strings.HasPrefix(string(content), "#!")
}
