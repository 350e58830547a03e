package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/manifests/lint/linttest"
)

// Vendors' own manifests on a control plane with all the taints of a bootstrap. Those in which lint finds a gap get no
// pod that is scheduled; what `ccmadm lint --fix` makes of them does, where it initializes nodes.
func TestLint_Vendors(t *testing.T) {
	t.Parallel()
	const notReady, network = corev1.TaintNodeNotReady, corev1.TaintNodeNetworkUnavailable
	cases := map[string]struct {
		workload string
		taints   []string // that keep the pod off
	}{
		"aws":       {"daemonset/aws-cloud-controller-manager", []string{notReady}},
		"azure":     {"deployment/cloud-controller-manager", []string{controlPlane, taint, network, notReady}},
		"openstack": {"daemonset/openstack-cloud-controller-manager", []string{notReady}},
		"vsphere":   {"daemonset/vsphere-cloud-controller-manager", nil},
		"huawei":    {"deployment/huawei-cloud-controller-manager", []string{network, notReady}},
		"kubevip":   {"deployment/kube-vip-cloud-provider", []string{taint, network, notReady}},
	}
	l := taintedControlPlane(t, "lint")
	for _, v := range linttest.Vendors() {
		t.Run(v.Name, func(t *testing.T) {
			c, ok := cases[v.Name]
			if !ok {
				t.Fatal("no case for this vendor")
			}
			dir := "/root/lint/" + v.Name
			l.copyManifests(t, v, dir)
			l.applyStandin(t, dir)
			if diff := cmp.Diff(c.taints, l.untolerated(t, c.workload)); diff != "" {
				t.Errorf("taints that nothing tolerates (-want +got):\n%s", diff)
			}
			before := l.placement(t, c.workload, func(p string) bool { return p != "" })
			if (before == scheduled) != (c.taints == nil) {
				t.Errorf("as it comes: %s", before)
			}
			fixed := l.must(t, "cp1", "ccmadm lint --fix -f "+dir)
			l.applyStandin(t, dir)
			// A program that serves Services only waits for nodes that are initialized: lint leaves its placement alone.
			waits := v.Name == "kubevip"
			l.placement(t, c.workload, func(p string) bool { return p != "" && (p == scheduled) != waits })
			t.Logf("%s as it comes: %s; held by %v; then scheduled:\n%s", v.Module, before, c.taints, fixed)
			l.deleteManifests(t, dir)
		})
	}
}

func (l *lab) copyManifests(t *testing.T, v linttest.Vendor, dir string) {
	t.Helper()
	files, err := v.Manifests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	delete(files, "kustomization.yaml") // names the others, and no API server knows it
	local := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(local, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.must(t, "cp1", "mkdir -p "+filepath.Dir(dir))
	l.run(t, "cp", "--name", l.name, local, "cp1:"+dir)
}

// applyStandin applies the manifests with an image that can be had here: where the pod goes is what counts.
func (l *lab) applyStandin(t *testing.T, dir string) {
	t.Helper()
	l.must(t, "cp1", fmt.Sprintf(`for f in %s/*.yaml; do sed -E 's#^( *-? *image:).*#\1 %s#' $f; echo; echo ---; done | kubectl --kubeconfig /etc/kubernetes/admin.conf apply -f -`, dir, echoImage))
}

func (l *lab) deleteManifests(t *testing.T, dir string) {
	t.Helper()
	l.kubectl(t, "delete --ignore-not-found --grace-period=1 --timeout=30s -f "+dir)
}

// workload is what a DaemonSet and a Deployment have in common.
type workload struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct{ Template corev1.PodTemplateSpec }
	Status            struct {
		ObservedGeneration     int64
		DesiredNumberScheduled int // a DaemonSet's
	}
}

func (l *lab) workload(t *testing.T, name string) (w workload) {
	t.Helper()
	l.decode(t, "-n kube-system get "+name, &w)
	return w
}

func (l *lab) decode(t *testing.T, get string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(l.kubectl(t, get+" -o json")), into); err != nil {
		t.Fatal(err)
	}
}

// untolerated are the machine's taints that keep the pod off, sorted. The scheduler of 1.36 only counts nodes.
func (l *lab) untolerated(t *testing.T, name string) []string {
	t.Helper()
	w := l.workload(t, name)
	var keys []string
	for _, tt := range l.nodesNow(t)["cp1"].Spec.Taints {
		tolerated := func(o corev1.Toleration) bool { return o.ToleratesTaint(klog.Background(), &tt, false) }
		byItself := w.Kind == "DaemonSet" && w.Spec.Template.Spec.HostNetwork && tt.Key == corev1.TaintNodeNetworkUnavailable
		if tt.Effect == corev1.TaintEffectNoSchedule && !byItself && !slices.ContainsFunc(w.Spec.Template.Spec.Tolerations, tolerated) {
			keys = append(keys, tt.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

const scheduled = "scheduled"

// placement waits until the scheduler, or for a DaemonSet its controller, has said what is wanted.
func (l *lab) placement(t *testing.T, name string, wanted func(string) bool) (now string) {
	t.Helper()
	eventually(t, 30*time.Second, "the placement that is wanted of "+name, func() bool {
		now = l.placementNow(t, name)
		return wanted(now)
	})
	return now
}

func (l *lab) placementNow(t *testing.T, name string) string {
	t.Helper()
	w := l.workload(t, name)
	if w.Status.ObservedGeneration != w.Generation {
		return ""
	}
	if w.Kind == "DaemonSet" && w.Status.DesiredNumberScheduled == 0 {
		return "its controller makes no pod for any node"
	}
	var pods corev1.PodList
	l.decode(t, "-n kube-system get pods", &pods)
	said := ""
	for _, p := range pods.Items {
		for _, c := range p.Status.Conditions {
			switch {
			case c.Type != corev1.PodScheduled || !strings.HasPrefix(p.Name, w.Name+"-") || p.DeletionTimestamp != nil:
			case c.Status == corev1.ConditionTrue:
				return scheduled // the pod before it may still wait
			default:
				said = c.Reason + ": " + c.Message
			}
		}
	}
	return said
}
