package inpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/doctor/rehearsal"
	"github.com/ccmadm/ccmadm/manifests"
)

// example builds the program of the conformance kit, and has its cloud: it knows every machine but those called gone.
func example(t *testing.T) (program string, args []string) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "ccm")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", program, "../../../provider/conformance/example")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the example of a provider: %v\n%s", err, out)
	}
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		if strings.HasPrefix(name, "gone") {
			w.WriteHeader(http.StatusGone)
			return
		}
		machine := map[string]any{"ID": name, "Zone": "z1", "Type": "metal", "IPs": []string{"192.0.2.1"}}
		_ = json.NewEncoder(w).Encode(machine)
	}))
	t.Cleanup(cloud.Close)
	config := filepath.Join(dir, "cloud.conf")
	if err := os.WriteFile(config, []byte("url: "+cloud.URL+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return program, []string{"--cloud-provider=example", "--cloud-config=" + config}
}

// TestCluster_Run: with a ServiceAccount that may do nothing else, a real program is rehearsed as by --binary; whatever
// it would write with the pod's own token is refused by RBAC, and with RBAC widened by the policy; nothing stays.
func TestCluster_Run(t *testing.T) {
	program, args := example(t)
	client := plane.Admin(t)
	gone := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gone-1"}}
	gone.Spec.ProviderID = "example://gone-1"
	nodes := client.CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), gone, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nodes.Delete(context.WithoutCancel(t.Context()), "gone-1", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	k := &kubelet{status: running}
	k.log = func(ctx context.Context, w io.Writer, pod *corev1.Pod) { // the pod itself: ccmadm rehearse run-task
		sender := rehearsal.NewSender(w)
		o, err := task(ctx, client, pod.Name)
		if err == nil {
			o.Cluster, err = account(ctx, client, pod.Name)
		}
		if err == nil {
			err = attacked(ctx, client, o.Cluster, pod.Name)
		}
		if err != nil {
			_ = sender.End(nil, err)
			return
		}
		o.Progress, o.Log = sender.Progress, sender
		report, err := rehearsal.Run(ctx, o)
		_ = sender.End(report, err)
	}
	k.start(t)
	o := options(t, program)
	o.Task.Args = args
	var log strings.Builder
	o.Task.Log = &log
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Summary(); got != "1 Recognized, 1 WouldBeDeleted" || report.Nodes[1].Node != "gone-1" {
		t.Errorf("got %s", got)
	}
	if !strings.Contains(log.String(), "became leader") {
		t.Errorf("the program's log is not here: %s", log.String())
	}
	if n, err := nodes.Get(t.Context(), "cp1", metav1.GetOptions{}); err != nil || n.Spec.ProviderID != "" {
		t.Errorf("cp1 was written: %v", err)
	}
	if names := left(t); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

// attacked tries to write with the pod's token, before and after somebody has given it every permission.
func attacked(ctx context.Context, client kubernetes.Interface, pod *rest.Config, name string) error {
	attacker, err := kubernetes.NewForConfig(pod)
	if err != nil {
		return err
	}
	writes := map[string]func() error{
		"delete a Node": func() error {
			return attacker.CoreV1().Nodes().Delete(ctx, "gone-1", metav1.DeleteOptions{})
		},
		"create a ConfigMap": func() error {
			x := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
			_, err := attacker.CoreV1().ConfigMaps("default").Create(ctx, x, metav1.CreateOptions{})
			return err
		},
		"write a Node's status": func() error {
			n, err := client.CoreV1().Nodes().Get(ctx, "cp1", metav1.GetOptions{})
			if err == nil {
				_, err = attacker.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
			}
			return err
		},
		"exec into a pod": func() error {
			exec := attacker.CoreV1().RESTClient().Post().Namespace(name).Resource("pods").Name(name).SubResource("exec")
			return exec.Param("command", "sh").Param("container", "rehearsal").Do(ctx).Error()
		},
	}
	for what, write := range writes {
		if err := write(); !apierrors.IsForbidden(err) || strings.Contains(err.Error(), manifests.RehearsalDenial) {
			return fmt.Errorf("%s, without the permission: not refused by RBAC: %w", what, err)
		}
	}
	if _, err := attacker.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		return fmt.Errorf("read Secrets: not refused: %w", err)
	}
	wide := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "wide-" + name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: name}},
	}
	bindings := client.RbacV1().ClusterRoleBindings()
	if _, err := bindings.Create(ctx, wide, metav1.CreateOptions{}); err != nil {
		return err
	}
	defer func() { _ = bindings.Delete(ctx, wide.Name, metav1.DeleteOptions{}) }()
	for {
		if _, err := attacker.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{}); err == nil {
			break // the permission has come
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	for what, write := range writes {
		if err := write(); err == nil || !strings.Contains(err.Error(), manifests.RehearsalDenial) {
			return fmt.Errorf("%s, with every permission: not denied by the policy: %w", what, err)
		}
	}
	return nil
}

// TestCluster_Stopped: whoever stops a rehearsal leaves nothing behind.
func TestCluster_Stopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	k := &kubelet{status: running, log: func(logs context.Context, w io.Writer, _ *corev1.Pod) {
		rehearsal.NewSender(w).Progress("pass 1 of 2")
		<-logs.Done()
	}}
	k.start(t)
	o := options(t, "/bin/ccm")
	o.Task.Progress = func(text string) {
		if strings.HasPrefix(text, "pass 1") {
			stop()
		}
	}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if names := left(t); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

// TestCluster_InForce: a policy that is not there denies nothing.
func TestCluster_InForce(t *testing.T) {
	r, err := newRun(options(t, "/bin/ccm"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.render(); err != nil {
		t.Fatal(err)
	}
	whole := r.objects
	r.objects = nil
	for _, o := range whole {
		if !strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
			r.objects = append(r.objects, o)
		}
	}
	t.Cleanup(func() {
		if err := r.remove(context.WithoutCancel(t.Context()), r.name); err != nil {
			t.Error(err)
		}
	})
	if err := r.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if err := r.inForce(short); err == nil {
		t.Error("without a policy the pod would be made")
	}
	for _, o := range whole {
		if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
			if _, err := r.createOne(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	start := time.Now()
	if err := r.inForce(t.Context()); err != nil {
		t.Error(err)
	}
	t.Logf("in force after %.1f s", time.Since(start).Seconds())
}
