package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestDoctorHost looks at real machines: nothing is wrong on them, then one thing after the other is, and what the doctor
// says to do is done as it stands there.
func TestDoctorHost(t *testing.T) {
	t.Parallel()
	l := up(t, "doctorhost", 1, 1, "--image", agentImage)
	l.must(t, "cp1", ccmadmInit+" --routes") // with a pod network, so that Nodes are Ready
	l.must(t, "w1", l.joinCommand(t))
	l.expectInitialized(t, "cp1", "w1")
	l.expectNoFindings(t, "cp1")
	l.expectNoFindings(t, "w1") // it has no kubeconfig of an administrator

	faults := []struct {
		name, node, do string
		want           []string
		next           string
	}{
		{
			name: "a flag that wins, and the kubelet not restarted", node: "w1",
			do:   "echo KUBELET_EXTRA_ARGS=--cloud-provider=aws > /etc/default/kubelet; ls /etc/sysconfig/kubelet && cp /etc/default/kubelet /etc/sysconfig/; true",
			want: []string{"warning A3 ", "warning K2 ", "/etc/default/kubelet:1: aws"},
			next: "rm -f /etc/default/kubelet; [ ! -e /etc/sysconfig/kubelet ] || echo > /etc/sysconfig/kubelet; systemctl daemon-reload && systemctl restart kubelet",
		},
		{
			name: "the kubelet is stopped and disabled", node: "w1", do: "systemctl disable --now kubelet",
			want: []string{"error K1 ", "unit kubelet is inactive (dead)", "warning K3 "}, next: "systemctl enable kubelet; systemctl start kubelet",
		},
		{
			name: "a program on 10258", node: "cp1",
			do: "mv " + managerYAML + " /root/; while ss -Htln sport = :10258 | grep -q .; do sleep 0.2; done; " +
				"systemd-run --quiet --unit stranger --socket-property=ListenStream=10258 cat; mv /root/cloud-controller-manager.yaml " + managerYAML,
			want: []string{"error B10 ", "(process 1)", "port 10258 of kube-system/cloud-controller-manager"},
			next: "systemctl stop stranger.socket",
		},
		{
			name: "a manager that systemd runs, where no pod wants its port: nothing is wrong", node: "w1",
			do:   "systemd-run --quiet --unit manager --socket-property=ListenStream=10258 cat",
			next: "systemctl stop manager.socket",
		},
		{
			name: "a backup beside a manifest", node: "cp1",
			do:   "cp /etc/kubernetes/manifests/cloud-controller-manager.yaml /etc/kubernetes/manifests/cloud-controller-manager.yaml.bak",
			want: []string{"error K4 ", "are both pod kube-system/cloud-controller-manager"}, next: "rm /etc/kubernetes/manifests/cloud-controller-manager.yaml.bak",
		},
		{
			name: "a manifest that is no YAML", node: "cp1", do: "printf 'kind: Pod\\n\\tx' > /etc/kubernetes/manifests/other.yaml",
			want: []string{"error K4 ", "other.yaml: it is no Pod"}, next: "rm /etc/kubernetes/manifests/other.yaml",
		},
		{
			name: "a resolver on loopback", node: "w1",
			do: "f=$(awk '/resolvConf:/ {print $2}' /var/lib/kubelet/config.yaml); f=$(readlink -f ${f:-/etc/resolv.conf}); cp $f /root/resolv; " +
				"echo nameserver 127.0.0.53 > $f",
			want: []string{"error K8 ", "names 127.0.0.53"},
			next: "f=$(awk '/resolvConf:/ {print $2}' /var/lib/kubelet/config.yaml); cat /root/resolv > $(readlink -f ${f:-/etc/resolv.conf})",
		},
		{
			name: "containerd hangs", node: "w1", do: "systemctl kill -s STOP containerd",
			want: []string{"error K9 ", "containerd.sock: it has not answered in 3 s"}, next: "systemctl kill -s CONT containerd",
		},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			l.must(t, f.node, f.do)
			start := time.Now()
			r := l.sh(t, f.node, "ccmadm doctor --host")
			took := time.Since(start)
			if len(f.want) == 0 && r.code != 0 {
				t.Errorf("exit status %d, want 0\n%s", r.code, r.out)
			}
			for _, want := range f.want {
				if r.code != 6 || !strings.Contains(r.out, want) {
					t.Errorf("exit status %d, want 6 and %q\n%s", r.code, want, r.out)
				}
			}
			t.Logf("found in %s:\n%s", took.Round(time.Millisecond), r.out)
			l.must(t, f.node, f.next)
			l.expectNoFindings(t, f.node)
		})
	}
	l.expectNoFindings(t, "cp1") // w1 sees no cluster: its Node may not be Ready yet again
	l.expectBundle(t)
}

// expectNoFindings waits until nothing is wrong: a kubelet that was started again needs some seconds.
func (l *lab) expectNoFindings(t *testing.T, node string) {
	t.Helper()
	var r result
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Second) {
		if r = l.sh(t, node, "ccmadm doctor --host"); r.code == 0 {
			return
		}
	}
	t.Errorf("on %s something is wrong: exit status %d\n%s", node, r.code, r.out)
}

// expectBundle has logs of real pods in it, and nothing of a kubeconfig.
func (l *lab) expectBundle(t *testing.T) {
	t.Helper()
	out := l.must(t, "cp1", "cd /root && rm -rf support && mkdir support && ccmadm support-bundle -o s.tar.gz && stat -c %a s.tar.gz && tar xzf s.tar.gz -C support && "+
		"cd support/ccmadm-support && find . -type f | sort && cat not-seen.txt")
	t.Logf("support-bundle:\n%s", out)
	for _, want := range []string{
		"600\n", "./cluster/logs/kube-system/cloud-controller-manager-cp1/", "./cluster/events-kube-system.txt", "./cluster/configmaps/kubeadm-config.yaml",
		"./machine/kubelet-command-line.txt", "./machine/etc/kubernetes/manifests/cloud-controller-manager.yaml", "./snapshot.json",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the bundle lacks %s", want)
		}
	}
	if r := l.sh(t, "cp1", "cd /root && ccmadm support-bundle -o s.tar.gz"); r.code != 2 || !strings.Contains(r.out, "s.tar.gz is there already") {
		t.Errorf("a second time: exit status %d\n%s", r.code, r.out)
	}
	// Every credential of the machine: keys and tokens are searched for in the archive, line by line.
	leaks := l.must(t, "cp1", `cd /root/support && for f in /etc/kubernetes/*.conf /etc/kubernetes/pki/*.key /etc/kubernetes/pki/etcd/*.key; do
  awk '/client-key-data|token:/ {print substr($2, 1, 60)} /^[A-Za-z0-9+\/=]{60}/ {print}' $f; done | sort -u > /root/keys
kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system get secrets -o jsonpath='{range .items[*]}{.data.token-secret}{"\n"}{end}' | base64 -d >> /root/keys
wc -l < /root/keys; grep -v '^$' /root/keys | grep -rlFf - . || true`)
	if lines := strings.Fields(leaks); len(lines) != 1 || lines[0] == "0" {
		t.Errorf("credentials of the machine in the bundle (the number of those that were looked for, then files): %s", leaks)
	}
	if r := l.sh(t, "cp1", "ccmadm doctor --from /root/support/ccmadm-support/snapshot.json"); r.code != 0 {
		t.Errorf("the bundle's snapshot: exit status %d\n%s", r.code, r.out)
	}
}
