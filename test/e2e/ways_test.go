package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestDaemonSet: the cloud-controller-manager as a DaemonSet, without a CNI plugin, kube-proxy or DNS in its way.
func TestDaemonSet(t *testing.T) {
	t.Parallel()
	l := up(t, "daemon", 1, 2)
	t.Logf("%s", l.must(t, "cp1", ccmadmInit+" --mode DaemonSet"))
	join := l.joinCommand(t)
	l.must(t, "w1", join)
	l.must(t, "w2", join)
	l.expectCluster(t, "cp1", "w1", "w2")
	if r := l.sh(t, "cp1", "ls /etc/kubernetes/manifests/cloud-controller-manager.yaml /etc/kubernetes/cloud-controller-manager.conf"); r.code == 0 {
		t.Errorf("static pod files in DaemonSet mode: %s", r.out)
	}
	t.Run("what is no longer wanted goes", func(t *testing.T) {
		l.must(t, "cp1", "ccmadm init phase addon --mode DaemonSet -o text")
		out := l.must(t, "cp1", "ccmadm init phase addon --mode DaemonSet")
		if !strings.Contains(out, "unchanged") || strings.Contains(out, "configured") {
			t.Errorf("a second run of the phase wrote something:\n%s", out)
		}
	})
	l.expectApplyOfAWorkload(t)
}

// TestHooks: the user drives kubeadm and calls ccmadm's phases in between, each in a process of its own.
func TestHooks(t *testing.T) {
	t.Parallel()
	l := up(t, "hooks", 1, 2)
	phase := func(node, args string) { t.Helper(); l.must(t, node, "ccmadm "+args) }
	phase("cp1", "init phase preflight --config "+kubeadmYAML)
	phase("cp1", "init phase kubeadm-config --config "+kubeadmYAML)
	l.must(t, "cp1", "kubeadm init phase certs ca --config /etc/ccmadm/kubeadm.yaml")
	phase("cp1", "init phase kubeconfig")
	phase("cp1", "init phase control-plane")
	l.must(t, "cp1", "kubeadm init --config /etc/ccmadm/kubeadm.yaml "+ignore)
	for _, p := range []string{"rbac", "cloud-config", "addon", "record", "wait"} {
		phase("cp1", "init phase "+p)
	}
	endpoint := strings.Fields(l.joinCommand(t))
	args := strings.Join(endpoint[2:], " ") // HOST:PORT --token ... --discovery-token-ca-cert-hash ...
	for _, w := range []string{"w1", "w2"} {
		phase(w, "join phase record "+args)
		phase(w, "join phase kubelet "+args)
		l.must(t, w, "kubeadm join --config /etc/ccmadm/kubeadm.yaml "+ignore)
		phase(w, "join phase wait")
	}
	l.expectCluster(t, "cp1", "w1", "w2")

	t.Run("every phase says unchanged the second time", func(t *testing.T) {
		revision := l.quietRevision(t)
		for _, p := range []string{"kubeadm-config", "kubeconfig", "control-plane", "kubeadm-control-plane", "rbac", "kubeadm-finish", "cloud-config", "record"} {
			out := l.must(t, "cp1", "ccmadm init phase "+p)
			if strings.Contains(out, " written") || strings.Contains(out, " created") || strings.Contains(out, " configured") || strings.Contains(out, "running kubeadm") {
				t.Errorf("phase %s did something:\n%s", p, out)
			}
		}
		l.expectNoWritesSince(t, revision)
	})
}

// TestConfigurer: a plain `kubeadm join` on machines that ccmadm has configured beforehand.
func TestConfigurer(t *testing.T) {
	t.Parallel()
	l := up(t, "conf", 1, 2)
	l.must(t, "cp1", ccmadmInit)
	plain := "kubeadm " + strings.TrimPrefix(l.joinCommand(t), "ccmadm ")

	// w1: the phase once, by hand. w2: the unit of a machine image, which runs at boot: restarted and not started, because
	// a kubelet that waits for its join and is restarted every ten seconds may have started the unit a moment before.
	l.must(t, "w1", "ccmadm join phase kubelet")
	l.must(t, "w2", "ccmadm join phase kubelet --install-unit && rm /etc/ccmadm/kubelet.env && systemctl restart ccmadm-kubelet && test -s /etc/ccmadm/kubelet.env")
	out := l.must(t, "w2", "ccmadm join phase kubelet --install-unit")
	if strings.Contains(out, " written") {
		t.Errorf("the second run wrote something:\n%s", out)
	}
	for _, w := range []string{"w1", "w2"} {
		l.must(t, w, plain)
	}
	l.must(t, "cp1", "ccmadm wait cp1 w1 w2 --timeout 60s")
	l.expectCluster(t, "cp1", "w1", "w2")

	t.Run("the unit survives a reboot", func(t *testing.T) {
		l.run(t, "kill", "--name", l.name, "w2")
		l.run(t, "start", "--name", l.name, "w2")
		eventually(t, 60*time.Second, "kubelet of w2 runs in external mode after a boot", func() bool {
			return l.sh(t, "w2", "systemctl is-active ccmadm-kubelet kubelet && tr '\\0' ' ' < /proc/$(systemctl show -p MainPID --value kubelet)/cmdline | grep -q -- --cloud-provider=external").code == 0
		})
	})
	t.Run("a boot without a network keeps the kubelet's flags, and the network may come later", l.testUnplugged)
	t.Run("an administrator's flags win", l.testPrecedence)
}

// unplugged is a unit that takes the network away before anything asks for it.
const unplugged = `[Unit]
DefaultDependencies=no
Before=ccmadm-kubelet.service kubelet.service containerd.service
[Service]
Type=oneshot
ExecStart=/sbin/ip address flush dev eth0
ExecStart=/sbin/ip link set eth0 down
[Install]
WantedBy=multi-user.target
`

func (l *lab) testUnplugged(t *testing.T) {
	const unit = "/etc/systemd/system/unplugged.service"
	const runs = `systemctl is-active kubelet && sha256sum /etc/ccmadm/kubelet.env &&
tr '\0' ' ' < /proc/$(systemctl show -p MainPID --value kubelet)/cmdline`
	before := l.must(t, "w2", runs)
	address := strings.TrimSpace(l.must(t, "w2", "ip -4 -o address show dev eth0 | awk '{print $4}'"))
	routes := l.must(t, "w2", "ip route show default")
	l.must(t, "w2", "cat > "+unit+" <<'END'\n"+unplugged+"END\nsystemctl enable unplugged.service")
	l.run(t, "kill", "--name", l.name, "w2")
	l.run(t, "start", "--name", l.name, "w2")
	if got := l.must(t, "w2", "ip -4 -o address show dev eth0"); got != "" {
		t.Fatalf("it has a network: %s", got)
	}
	eventually(t, time.Minute, "the kubelet of w2 runs as before, without a network", func() bool {
		return l.sh(t, "w2", runs).out == before
	})
	if r := l.sh(t, "w2", "systemctl is-active ccmadm-kubelet"); r.code == 0 {
		t.Errorf("the unit found an address without a network: %s", r.out)
	}
	l.must(t, "w2", fmt.Sprintf(
		"rm %s; ip link set eth0 up && ip address add %s dev eth0 && ip route add %s && systemctl restart lab-routes",
		unit, address, strings.TrimSpace(routes)))
	eventually(t, time.Minute, "the unit has found the address, and the kubelet runs as before", func() bool {
		return l.sh(t, "w2", "systemctl is-active --quiet ccmadm-kubelet && "+runs).out == before
	})
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node w2")
}

// testPrecedence looks at the kubelet's real command line, of which the last occurrence of a flag counts.
func (l *lab) testPrecedence(t *testing.T) {
	const effective = `systemctl daemon-reload; systemctl restart kubelet; sleep 1; tr '\0' '\n' < /proc/$(systemctl show -p MainPID --value kubelet)/cmdline | sed -n 's/^--node-ip=//p' | tail -n 1`
	ours := strings.TrimSpace(l.must(t, "w1", effective))
	if !strings.HasPrefix(ours, "198.") {
		t.Fatalf("node IP is %q, want the machine's address", ours)
	}
	for _, tc := range []struct{ name, file, content string }{
		{"kubeadm-flags.env", "/var/lib/kubelet/kubeadm-flags.env", `KUBELET_KUBEADM_ARGS="--node-ip=0.0.0.0"`},
		{"etc default kubelet", "/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--node-ip=0.0.0.0"},
		{"etc sysconfig kubelet", "/etc/sysconfig/kubelet", "KUBELET_EXTRA_ARGS=--node-ip=0.0.0.0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dropIn := ""
			if tc.file == "/etc/sysconfig/kubelet" { // as on a machine with RPMs
				dropIn = "printf '[Service]\\nEnvironmentFile=-/etc/sysconfig/kubelet\\n' > /etc/systemd/system/kubelet.service.d/15-rpm.conf;"
			}
			l.must(t, "w1", "mkdir -p /etc/sysconfig; cp "+tc.file+" /tmp/saved 2>/dev/null || rm -f /tmp/saved;"+dropIn+"echo '"+tc.content+"' > "+tc.file)
			if got := strings.TrimSpace(l.must(t, "w1", effective)); got != "0.0.0.0" {
				t.Errorf("node IP is %q, want the administrator's 0.0.0.0", got)
			}
			l.must(t, "w1", "if [ -e /tmp/saved ]; then mv /tmp/saved "+tc.file+"; else rm -f "+tc.file+"; fi; rm -f /etc/systemd/system/kubelet.service.d/15-rpm.conf")
		})
	}
	t.Run("another cloud-provider is refused", func(t *testing.T) {
		r := l.sh(t, "w1", "cp /etc/ccmadm/kubelet.env /tmp/env; echo KUBELET_EXTRA_ARGS=--cloud-provider=aws > /etc/default/kubelet; ccmadm join phase kubelet; code=$?; cmp /etc/ccmadm/kubelet.env /tmp/env; rm /etc/default/kubelet; exit $code")
		if r.code != 3 || !strings.Contains(r.out, "/etc/default/kubelet:1: --cloud-provider=aws") {
			t.Errorf("exit status %d, want 3 and the file with its line:\n%s", r.code, r.out)
		}
	})
}

// TestReset: only what kubeadm itself leaves is left.
func TestReset(t *testing.T) {
	t.Parallel()
	l := up(t, "reset", 2, 1)
	const tree = `cd / && find etc var/lib/kubelet var/lib/etcd -xdev 2>/dev/null | grep -v -e '^etc/cni' -e '^etc/mtab' | sort`
	// cp2 shows what kubeadm leaves by itself.
	before := l.must(t, "cp1", tree)
	l.must(t, "cp2", "kubeadm init --config "+kubeadmYAML+" "+ignore+" && kubeadm reset -f")
	kubeadms := l.must(t, "cp2", tree)

	l.must(t, "cp1", ccmadmInit)
	l.must(t, "w1", l.joinCommand(t))
	for _, node := range []string{"w1", "cp1"} {
		l.must(t, node, "ccmadm join phase kubelet || true") // the drop-in has to go as well
		t.Logf("%s", l.must(t, node, "ccmadm reset --force"))
	}
	for _, node := range []string{"cp1", "w1"} {
		if left := onlyIn(l.must(t, node, tree), kubeadms+before); left != "" {
			t.Errorf("left on %s, beside what kubeadm leaves:\n%s", node, left)
		}
	}
	t.Run("twice", func(t *testing.T) { l.must(t, "w1", "ccmadm reset --force") })
	t.Run("and init again", func(t *testing.T) {
		l.must(t, "cp1", ccmadmInit)
		l.expectInitialized(t, "cp1")
	})
}

// onlyIn returns the lines of a that are not in b.
func onlyIn(a, b string) string {
	known := map[string]bool{}
	for line := range strings.SplitSeq(b, "\n") {
		known[line] = true
	}
	var extra []string
	for line := range strings.SplitSeq(a, "\n") {
		if !known[line] {
			extra = append(extra, line)
		}
	}
	return strings.Join(extra, "\n")
}
