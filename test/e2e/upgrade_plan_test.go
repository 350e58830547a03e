package e2e

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/minors"
)

// poison puts an argument into the live configuration that ends kube-apiserver, and antidote takes it out again.
const (
	poison = admin + "-n kube-system get configmap kubeadm-config -o yaml > /root/kubeadm-config.yaml; " +
		`sed 's/^    apiServer: *{}/    apiServer: {extraArgs: [{name: cloud-provider, value: external}]}/' ` +
		"/root/kubeadm-config.yaml | " + admin + "replace -f -; mkdir /etc/sysconfig; echo 'KUBELET_EXTRA_ARGS=--cloud-config=/x' > /etc/sysconfig/kubelet"
	antidote = "grep -v resourceVersion /root/kubeadm-config.yaml | " + admin + "replace -f -; rm -r /etc/sysconfig"
)

// expectPlan plans a cluster with its own kubeadm: what is asked for in vain, what stands in the way, and
// the order. Nothing changes.
func (l *lab) expectPlan(t *testing.T) {
	s := stepTo(t, *kubernetesMinor)
	plan, older := s.plan(), minors.Load()[0].Kubernetes
	for _, tc := range []again{
		{name: "an older version", run: "ccmadm upgrade plan " + older, code: 3, want: older + " is older than v" + s.from + "."},
		{name: "two minors up", run: "ccmadm upgrade plan v" + s.beyond + ".0", code: 3, want: "upgrade to " + s.to + " first"},
		{name: "no version", run: "ccmadm upgrade plan latest", code: 2, want: "name a complete version"},
		{
			name: "poisoned", given: poison, run: plan, code: 3, restore: antidote,
			want: "warning A6: ConfigMap/kube-system/kubeadm-config",
		},
		{
			name: "poisoned files", given: poison, run: plan, code: 3, restore: antidote,
			want: "error A5: cp1:/etc/sysconfig/kubelet:1",
		},
		{name: "what it has", run: "ccmadm upgrade plan", want: "Nothing is to be done."},
		{name: "the next minor", run: plan, code: 6, want: "on cp1: install kubeadm " + s.version + ", and upgrade the control plane"},
	} {
		t.Run("plan/"+tc.name, func(t *testing.T) {
			if tc.given != "" {
				l.must(t, "cp1", tc.given)
				defer l.must(t, "cp1", tc.restore)
			}
			if r := l.sh(t, "cp1", tc.run); r.code != tc.code || !strings.Contains(r.out, tc.want) {
				t.Errorf("exit status %d, want %d and %q\n%s", r.code, tc.code, tc.want, r.out)
			}
		})
	}
}

// expectBothPlans has kubeadm of the version beside it, whose plan is in the other's.
func (l *lab) expectBothPlans(t *testing.T) {
	t.Helper()
	r := l.sh(t, "cp1", "ccmadm upgrade plan -o json -- "+ignore)
	to := stepTo(t, *kubernetesMinor).to
	for _, want := range []string{`"availableUpgrades"`, `"ccmadm upgrade apply v` + to + `.`, `/kube-apiserver:v` + to + `.`} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%s is not in the plan", want)
		}
	}
	if r.code != 6 {
		t.Errorf("exit status %d, want 6\n%s", r.code, r.out)
	}
}
