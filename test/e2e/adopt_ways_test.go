package e2e

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestAdopt_Ways: steps on other machines by somebody who does what is asked of him, and by the OpenSSH client.
func TestAdopt_Ways(t *testing.T) {
	l := up(t, "adoptways", 1, 2)
	nodes := l.plainControlPlanes(t, nil, []string{"w1", "w2"})
	before := l.seen(t, nodes)
	t.Run("by hand", func(t *testing.T) {
		out := l.byHand(t, "ccmadm adopt --provider onprem --yes --parallel 2 -o json", 2)
		if ends := strings.Count(out, `"step":"Done","seconds":`); ends != len(nodes) {
			t.Errorf("%d lines of nodes that are done, want %d", ends, len(nodes))
		}
		l.expectInitialized(t, nodes...)
		l.byHand(t, "ccmadm leave --yes", 2)
		l.expectAsBefore(t, before, l.seen(t, nodes))
	})
	t.Run("over SSH", func(t *testing.T) {
		l.serveSSH(t, "w1", "w2")
		if r := l.sh(t, "cp1", "ccmadm adopt --provider onprem --via ssh --ssh-user nobody --yes"); r.code != 5 ||
			!strings.Contains(r.out, "w1: run ssh") || !strings.Contains(r.out, "Permission denied") {
			t.Errorf("as nobody: exit status %d, want 5 and the reason\n%s", r.code, r.out)
		}
		t.Logf("%s", l.must(t, "cp1", "ccmadm adopt --provider onprem --via ssh --yes"))
		l.expectInitialized(t, nodes...)
		l.must(t, "cp1", "ccmadm leave --via ssh --purge --yes") // the journal of the runs by hand goes, too
		l.expectAsBefore(t, before, l.seen(t, nodes))
		left := l.kubectl(t, "get configmaps,leases,secrets -A -l app.kubernetes.io/managed-by=ccmadm -o name")
		if left != "" && !strings.Contains(left, "No resources found") {
			t.Errorf("purge has left %s", left)
		}
	})
}

// byHand runs a command, and does on other machines what it asks for.
func (l *lab) byHand(t *testing.T, command string, steps int) string {
	t.Helper()
	done := make(chan result)
	go func() { done <- l.sh(t, "cp1", "exec "+command+" > /tmp/hand 2>&1") }()
	ask := regexp.MustCompile(`on (\w+), as root, run: (ccmadm node .*)`)
	asked := map[string]bool{}
	for {
		select {
		case r := <-done:
			out := l.must(t, "cp1", "cat /tmp/hand; rm /tmp/hand")
			t.Logf("%s", out)
			if r.code != 0 || len(asked) != steps {
				t.Fatalf("%s: exit status %d, asked for %v", command, r.code, asked)
			}
			return out
		case <-time.After(time.Second):
		}
		for _, m := range ask.FindAllStringSubmatch(l.sh(t, "cp1", "cat /tmp/hand").out, -1) {
			if !asked[m[1]] {
				asked[m[1]] = true
				l.must(t, m[1], m[2])
			}
		}
	}
}

// serveSSH brings Debian's sshd to machines, and a key that they know to cp1.
func (l *lab) serveSSH(t *testing.T, servers ...string) {
	t.Helper()
	dir := t.TempDir()
	host := func(name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	host("apt-get", "-qq", "download", "openssh-server", "openssh-client", "openssh-sftp-server", "libwrap0")
	packages, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		host("dpkg", "-x", p, "root")
	}
	host("tar", "-C", "root", "-cf", "ssh.tar", "usr/sbin", "usr/bin", "usr/lib", "etc/ssh", "etc/pam.d")
	host("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key")
	for _, node := range append([]string{"cp1"}, servers...) {
		l.run(t, "cp", "--name", l.name, filepath.Join(dir, "ssh.tar"), node+":/tmp/ssh.tar")
		l.run(t, "cp", "--name", l.name, filepath.Join(dir, "key"), node+":/tmp/key")
		l.run(t, "cp", "--name", l.name, filepath.Join(dir, "key.pub"), node+":/tmp/key.pub")
		l.must(t, node, "tar -C / -xf /tmp/ssh.tar --no-same-owner --keep-directory-symlink; "+
			"install -d -m 700 /root/.ssh; install -d -m 755 /run/sshd; install -m 600 /tmp/key /root/.ssh/id_ed25519; install -m 600 /tmp/key.pub /root/.ssh/authorized_keys; "+
			"echo 'StrictHostKeyChecking accept-new' > /root/.ssh/config")
	}
	for _, node := range servers {
		l.must(t, node, "id sshd 2>/dev/null || useradd --system --home-dir /run/sshd --shell /usr/sbin/nologin sshd; "+
			"ssh-keygen -A; systemd-run --quiet --unit sshd /usr/sbin/sshd -D -f /dev/null -o UsePAM=no -o PermitRootLogin=yes")
		eventually(t, 10*time.Second, "sshd of "+node+" answers", func() bool {
			return l.sh(t, "cp1", "ssh -o BatchMode=yes "+l.address(t, node)+" true").code == 0
		})
	}
}
