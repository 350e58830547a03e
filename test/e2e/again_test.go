package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const admin = "kubectl --kubeconfig /etc/kubernetes/admin.conf "

// keptFiles are digests of what neither ccmadm nor kubeadm may change. The rest of /var/lib/kubelet is the kubelet's own,
// at work.
const keptFiles = "find /etc /var/lib/kubelet/*.yaml /var/lib/kubelet/*.env -type f | sort | xargs -d '\\n' sha256sum"

// TestInitAgain: once kubeadm has finished on a machine, `ccmadm init` runs none of it there again and changes no file,
// whatever it sees: an old configuration, other settings, no API server, no Node, a cluster that was changed since.
func TestInitAgain(t *testing.T) {
	t.Parallel()
	l := up(t, "again", 1, 0)
	l.must(t, "cp1", ccmadmInit)
	old := strings.Replace(ccmadmInit, kubeadmYAML, "/tmp/old.yaml", 1)
	l.must(t, "cp1", "sed 's/^kubernetesVersion: .*/kubernetesVersion: v1.33.0/' "+kubeadmYAML+" > /tmp/old.yaml; grep v1.33.0 /tmp/old.yaml")
	for _, tc := range []struct {
		name    string
		given   string // makes the situation
		run     string
		code    int
		want    string
		restore string
	}{
		{name: "the same command", run: ccmadmInit, want: "kubeadm has finished here"},
		{name: "a configuration of an older version", run: old, want: "kubeadm has finished here"},
		{name: "another mode", run: old + " --mode DaemonSet", code: 5, want: `init with mode "DaemonSet": the cluster's record says "StaticPod"`},
		{name: "another provider", run: old + " --provider sample", code: 5, want: `init with provider "sample"`},
		{name: "another name", run: old + " --node-name cp9", code: 5, want: "this machine is Node/cp1"},
		{
			name:  "after kube-proxy was replaced",
			given: admin + "-n kube-system delete daemonset kube-proxy; " + admin + "-n kube-system annotate configmap kubeadm-config by=hand",
			run:   old + "; " + admin + "-n kube-system get daemonset kube-proxy 2>&1; " + admin + "-n kube-system get configmap kubeadm-config -o yaml",
			want:  "by: hand",
		},
		{
			name:    "no API server",
			given:   "mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/ && while " + admin + "get --raw /livez; do sleep 1; done",
			run:     old,
			code:    5,
			want:    "compare with the cluster's record",
			restore: "mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/",
		},
		{
			name:  "no Node",
			given: "until " + admin + "delete node cp1; do sleep 1; done",
			run:   old + " --timeout 3s",
			code:  4,
			want:  "there is no such Node",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.given != "" {
				l.must(t, "cp1", tc.given)
			}
			before := l.must(t, "cp1", keptFiles)
			start := time.Now()
			r := l.sh(t, "cp1", tc.run)
			if r.code != tc.code || !strings.Contains(r.out, tc.want) || strings.Contains(r.out, "running kubeadm") {
				t.Errorf("exit status %d, want %d and %q, and no kubeadm\n%s", r.code, tc.code, tc.want, r.out)
			}
			if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(l.must(t, "cp1", keptFiles), "\n")); diff != "" {
				t.Errorf("/etc or the kubelet's configuration changed (-before +after):\n%s", diff)
			}
			t.Logf("%.1f s", time.Since(start).Seconds())
			if tc.restore != "" {
				l.must(t, "cp1", tc.restore)
			}
		})
	}
}
