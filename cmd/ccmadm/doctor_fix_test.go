package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// TestClusterDoctorFix has a manager that no Node is fit for: that is fixed, and what hangs on it is left to it.
func TestClusterDoctorFix(t *testing.T) {
	client, err := kubernetes.NewForConfig(cluster.Config)
	check(t, err)
	taintedNode(t, client, "fix-a", v1alpha1.ShutdownTaint, v1alpha1.UninitializedTaint)
	taintedNode(t, client, "fix-b", "example.org/other", v1alpha1.UninitializedTaint)
	unplacedManager(t, client)
	for _, answer := range []string{"n\n", "", "what?\n"} {
		out, status := doctorAsAdmin(t, answer, "--fix")
		for _, want := range []string{
			"safe remedies:\n  1. B1 DaemonSet/kube-system/fix-ccm: tolerate taint " + v1alpha1.UninitializedTaint,
			"kubectl -n kube-system patch daemonset/fix-ccm --type=json -p '[{", "Apply 1? [y/N]", "nothing was changed",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%q: %q is not said:\n%s", answer, want, out)
			}
		}
		if n := len(tolerations(t, client)); status != 6 || n != 1 {
			t.Errorf("%q: exit status %d, %d tolerations\n%s", answer, status, n, out)
		}
	}
	out, status := doctorAsAdmin(t, "y\n", "--fix")
	if status != 6 || !strings.Contains(out, "  1. done\n") || !has(t, client, v1alpha1.ShutdownTaint) {
		t.Errorf("exit status %d, want 6 for what has no remedy\n%s", status, out)
	}
	if list := tolerations(t, client); len(list) != 2 || list[1].Key != v1alpha1.UninitializedTaint {
		t.Errorf("got tolerations %v", list)
	}
	if out, _ = doctorAsAdmin(t, "", "--fix", "--yes"); !strings.Contains(out, "no finding has a safe automatic remedy") {
		t.Errorf("a second time something is left to be fixed:\n%s", out)
	}
}

// TestClusterDoctorFix_Node has a Node that runs and is said to be switched off, and a manager that leads.
func TestClusterDoctorFix_Node(t *testing.T) {
	client, err := kubernetes.NewForConfig(cluster.Config)
	check(t, err)
	taintedNode(t, client, "fix-a", "example.org/other", v1alpha1.ShutdownTaint)
	ctx, leases := context.WithoutCancel(t.Context()), client.CoordinationV1().Leases(metav1.NamespaceSystem)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName}}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new("cp1_1"), new(int32(3600))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	check(t, err)
	t.Cleanup(func() { check(t, leases.Delete(ctx, lease.Name, metav1.DeleteOptions{})) })
	out, _ := doctorAsAdmin(t, "", "--fix", "--yes")
	if !strings.Contains(out, "N2 Node/fix-a: remove taint") || !strings.Contains(out, "  1. done\n") || has(t, client, v1alpha1.ShutdownTaint) {
		t.Errorf("the taint is there:\n%s", out)
	}
	if !has(t, client, "example.org/other") {
		t.Error("the wrong taint was removed")
	}
}

func tolerations(t *testing.T, c kubernetes.Interface) []corev1.Toleration {
	t.Helper()
	d, err := c.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(t.Context(), "fix-ccm", metav1.GetOptions{})
	check(t, err)
	return d.Spec.Template.Spec.Tolerations
}

func has(t *testing.T, c kubernetes.Interface, taint string) bool {
	t.Helper()
	n, err := c.CoreV1().Nodes().Get(t.Context(), "fix-a", metav1.GetOptions{})
	check(t, err)
	for _, x := range n.Spec.Taints {
		if x.Key == taint {
			return true
		}
	}
	return false
}

// taintedNode is one that is Ready for an hour, initialized once, with taints.
func taintedNode(t *testing.T, c kubernetes.Interface, name string, taints ...string) {
	t.Helper()
	ctx, nodes := context.WithoutCancel(t.Context()), c.CoreV1().Nodes()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.ProviderID = "aws:///a/i-" + name
	made, err := nodes.Create(ctx, n, metav1.CreateOptions{})
	check(t, err)
	t.Cleanup(func() { check(t, nodes.Delete(ctx, name, metav1.DeleteOptions{})) })
	made.Spec.Taints = nil // admission adds not-ready
	for _, key := range taints {
		made.Spec.Taints = append(made.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	made, err = nodes.Update(ctx, made, metav1.UpdateOptions{})
	check(t, err)
	made.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
	}}
	_, err = nodes.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	check(t, err)
}

// unplacedManager is a DaemonSet that lacks a toleration on every Node.
func unplacedManager(t *testing.T, c kubernetes.Interface) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	labels := map[string]string{"app": "fix-ccm"}
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "fix-ccm"}}
	d.Spec.Selector, d.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "example.org/other", Operator: corev1.TolerationOpExists}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "ccm", Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.36.0", Args: []string{"--cloud-provider=aws"},
	}}
	sets := c.AppsV1().DaemonSets(metav1.NamespaceSystem)
	made, err := sets.Create(ctx, d, metav1.CreateOptions{})
	check(t, err)
	t.Cleanup(func() { check(t, sets.Delete(ctx, d.Name, metav1.DeleteOptions{})) })
	made.Status.ObservedGeneration = made.Generation
	_, err = sets.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	check(t, err)
}

func doctorAsAdmin(t *testing.T, answer string, args ...string) (string, int) {
	t.Helper()
	config, err := cluster.Kubeconfig("admin", "system:masters")
	check(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, kubeconfig, string(config))
	var out bytes.Buffer
	streams := workflow.Streams{In: strings.NewReader(answer), Out: &out, Err: &out, Getenv: func(string) string { return "" }}
	status := run(t.Context(), streams, append([]string{"ccmadm", "doctor", "--kubeconfig", kubeconfig}, args...))
	return out.String(), status
}

// TestClusterDoctorWatch says what is wrong once, then only what has changed, and ends when it is told to.
func TestClusterDoctorWatch(t *testing.T) {
	client, err := kubernetes.NewForConfig(cluster.Config)
	check(t, err)
	config, err := cluster.Kubeconfig("admin", "system:masters")
	check(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, kubeconfig, string(config))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader := &watched{}
	streams := workflow.Streams{In: strings.NewReader(""), Out: reader, Err: reader, Getenv: func(string) string { return "" }}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, streams, []string{"ccmadm", "doctor", "--kubeconfig", kubeconfig, "--watch", "--interval", "1s"})
	}()
	reader.await(t, "Nodes, ")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "watch-a"}}
	n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule}}
	_, err = client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
	check(t, err)
	reader.await(t, "watch-a")
	time.Sleep(2500 * time.Millisecond)
	quiet := reader.len()
	time.Sleep(2500 * time.Millisecond)
	if after := reader.len(); after != quiet {
		t.Errorf("what has not changed is said again:\n%s", reader.text())
	}
	check(t, client.CoreV1().Nodes().Delete(t.Context(), "watch-a", metav1.DeleteOptions{}))
	reader.await(t, " - ")
	stop()
	select {
	case status := <-ended:
		if status != 6 {
			t.Errorf("exit status %d, want 6: no manager is there\n%s", status, reader.text())
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

// A machine that does not know its cluster is watched, too: it is not a kubeconfig that was named and is gone.
func TestDoctorWatch_HostWithoutCluster(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	out := &watched{}
	go func() { // two more looks
		for ctx.Err() == nil && !strings.Contains(out.text(), "+ error K9 ") {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2500 * time.Millisecond)
		stop()
	}()
	streams := workflow.Streams{In: strings.NewReader(""), Out: out, Err: out, Getenv: func(string) string { return "" }}
	status := run(ctx, streams, []string{"ccmadm", "doctor", "--host", "--root", t.TempDir(), "--watch", "--interval", "1s"})
	if status != 6 || strings.Count(out.text(), "+ error K9 ") != 1 {
		t.Errorf("exit status %d, want 6 for the runtime that is not there\n%s", status, out.text())
	}
}

// watched is an output that is read while it is written.
type watched struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *watched) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(data)
}

func (s *watched) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func (s *watched) len() int { return len(s.text()) }

func (s *watched) await(t *testing.T, word string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.text(), word); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q is not said:\n%s", word, s.text())
		}
	}
}
