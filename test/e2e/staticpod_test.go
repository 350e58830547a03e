package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestStaticPod is the main job: bare machines, ccmadm init, two ccmadm joins.
func TestStaticPod(t *testing.T) {
	t.Parallel()
	l := up(t, "static", 1, 2)
	out := l.must(t, "cp1", ccmadmInit)
	t.Logf("ccmadm init:\n%s", out)
	l.expectInitialized(t, "cp1")
	join := l.joinCommand(t)
	for _, w := range []string{"w1", "w2"} {
		out := l.must(t, w, join)
		t.Logf("ccmadm join on %s:\n%s", w, out)
		l.expectInitialized(t, w) // join returns when the node is initialized
	}
	l.expectCluster(t, "cp1", "w1", "w2")

	t.Run("a second run changes nothing", func(t *testing.T) {
		before := l.must(t, "cp1", treeHash)
		revision := l.quietRevision(t)
		out := l.must(t, "cp1", ccmadmInit)
		for line := range strings.SplitSeq(out, "\n") {
			if strings.HasSuffix(line, " written") || strings.HasSuffix(line, " created") || strings.HasSuffix(line, " configured") {
				t.Errorf("written again: %s", line)
			}
		}
		if after := l.must(t, "cp1", treeHash); after != before {
			t.Errorf("files changed:\n%s\n%s", before, after)
		}
		l.expectNoWritesSince(t, revision)
		l.must(t, "w1", join)
	})

	t.Run("the record needs no secret and a worker can read it", func(t *testing.T) {
		record := l.must(t, "w1", "kubectl --kubeconfig /etc/kubernetes/kubelet.conf -n kube-system get configmap ccmadm-config -o yaml")
		if !strings.Contains(record, "provider: onprem") {
			t.Errorf("the record does not name the provider:\n%s", record)
		}
		if r := l.sh(t, "w1", "kubectl --kubeconfig /etc/kubernetes/kubelet.conf -n kube-system get secret ccmadm-cloud-config"); r.code == 0 {
			t.Error("a worker can read the provider's credentials")
		}
	})
}

// treeHash is one line over names, modes and contents of the trees that ccmadm writes to.
const treeHash = `cd / && find etc var/lib/kubelet -xdev \( -path var/lib/kubelet/pods -o -path var/lib/kubelet/pki -o -path etc/mtab \) -prune -o \( -type f -o -type l \) -printf '%p %m %l\n' | sort | sha256sum
cd / && find etc var/lib/kubelet -xdev -path var/lib/kubelet/pods -prune -o -type f -not -name '*.sock' -print0 | sort -z | xargs -0 sha256sum | sha256sum`

// revision is etcd's.
func (l *lab) revision(t testing.TB) string {
	t.Helper()
	return strings.TrimSpace(l.must(t, "cp1", etcdctl+` endpoint status -w json | grep -o '"revision":[0-9]*' | cut -d: -f2`))
}

const etcdctl = "etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt --cert=/etc/kubernetes/pki/etcd/server.crt --key=/etc/kubernetes/pki/etcd/server.key"

// expectNoWritesSince looks for keys that were written after a revision.
func (l *lab) expectNoWritesSince(t testing.TB, revision string) {
	t.Helper()
	for _, key := range l.writtenSince(t, revision) {
		t.Errorf("written: %s", key)
	}
}

// writtenSince leaves out what a cluster at rest writes all the time: leases, heartbeats, events, and the API servers'
// list of themselves, of which one drops out for a moment where its machine is slow.
func (l *lab) writtenSince(t testing.TB, revision string) []string {
	t.Helper()
	var keys []string
	out := l.must(t, "cp1", etcdctl+` get / --prefix --keys-only --order=ASCEND --min-mod-rev=$((`+revision+`+1)) | grep . || true`)
	for key := range strings.FieldsSeq(out) {
		quiet := false
		for _, prefix := range []string{
			"/registry/leases/", "/registry/masterleases/", "/registry/peerserverleases/", "/registry/events/",
			"/registry/minions/", "/registry/pods/",
			"/registry/services/endpoints/default/kubernetes", "/registry/endpointslices/default/kubernetes",
		} {
			quiet = quiet || strings.HasPrefix(key, prefix)
		}
		if !quiet {
			keys = append(keys, key)
		}
	}
	return keys
}

// quietRevision waits until the controllers of a young cluster have done their first work, and returns etcd's revision.
func (l *lab) quietRevision(t testing.TB) string {
	t.Helper()
	revision := l.revision(t)
	eventually(t, time.Minute, "three seconds without a write", func() bool {
		before := revision
		time.Sleep(3 * time.Second)
		revision = l.revision(t)
		return len(l.writtenSince(t, before)) == 0
	})
	return revision
}
