package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// initPhases change something, in this order, when `ccmadm init` makes a static pod.
var initPhases = []string{
	"kubeadm-config", "kubeadm-control-plane", "kubeconfig", "control-plane", "cloud-config", "rbac", "kubeadm-finish",
	"record",
}

// killAt runs a command and kills it with SIGKILL as soon as a phase prints its first line.
func killAt(command, phase string) string {
	return fmt.Sprintf(`mkfifo -m 600 /tmp/out.$$; %s > /tmp/out.$$ 2>&1 & pid=$!
while IFS= read -r line; do echo "$line"; case $line in "[%s]"*) kill -9 $pid; break;; esac; done < /tmp/out.$$
wait $pid; code=$?; rm /tmp/out.$$; exit $code`, command, phase)
}

// TestCrash kills ccmadm at every phase of init and join in turn, on one machine: each run goes on where the last one
// was cut off, and the final one completes.
func TestCrash(t *testing.T) {
	t.Parallel()
	l := up(t, "crash", 1, 2)
	t.Run("dry run on a bare machine", func(t *testing.T) { l.expectDryRun(t, "cp1", ccmadmInit) })
	for _, phase := range initPhases {
		r := l.sh(t, "cp1", killAt(ccmadmInit, phase))
		if r.code != 137 {
			t.Fatalf("killed at %s: exit status %d, want 137\n%s", phase, r.code, r.out)
		}
	}
	out := l.must(t, "cp1", ccmadmInit)
	t.Logf("the run after the last kill:\n%s", out)
	t.Run("dry run on a running control plane", func(t *testing.T) {
		revision := l.quietRevision(t)
		before := l.must(t, "cp1", treeHash)
		l.must(t, "cp1", ccmadmInit+" --dry-run")
		if after := l.must(t, "cp1", treeHash); after != before {
			t.Error("a dry run changed /etc or /var/lib/kubelet")
		}
		l.expectNoWritesSince(t, revision)
	})
	join := l.joinCommand(t)
	t.Run("dry run of a join", func(t *testing.T) { l.expectDryRun(t, "w1", join) })
	for _, phase := range []string{"record", "kubelet", "kubeadm"} {
		if r := l.sh(t, "w1", killAt(join, phase)); r.code != 137 {
			t.Fatalf("killed at %s: exit status %d, want 137\n%s", phase, r.code, r.out)
		}
	}
	l.must(t, "w1", join)
	l.must(t, "w2", join)
	l.expectCluster(t, "cp1", "w1", "w2")
}

// expectDryRun leaves /etc and /var/lib/kubelet as they were, to the byte.
func (l *lab) expectDryRun(t *testing.T, node, command string) {
	t.Helper()
	before := l.must(t, node, treeHash)
	out := l.must(t, node, command+" --dry-run")
	if !strings.Contains(out, "[dryrun] would write /etc/ccmadm/") && !strings.Contains(out, "would apply") {
		t.Errorf("the dry run shows no file:\n%s", out)
	}
	if after := l.must(t, node, treeHash); after != before {
		t.Errorf("a dry run changed /etc or /var/lib/kubelet")
	}
	if left := l.must(t, node, "ls -d /tmp/ccmadm-dryrun-* 2>/dev/null || true"); left != "" {
		t.Errorf("left behind: %s", left)
	}
}
