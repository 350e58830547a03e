package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/agents"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// A manager that may not watch leases does not say that it does. Beside one that does, an agent renews its lease and leaves its report as it
// is, until that is marked as silent.
func TestCluster_Run_Lease(t *testing.T) {
	applyDefinitions(t)
	client := kubernetes.NewForConfigOrDie(plane.Config)
	_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "leased"}}, metav1.CreateOptions{})
	must(t, err)
	data, err := plane.Kubeconfig("agent", "system:masters")
	must(t, err)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(kubeconfig, data, 0o600))
	ours, err := objects.New(plane.Config)
	must(t, err)

	const role = "writes-leases-only"
	_, err = client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: role},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "update"},
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "earlier"}},
	}, metav1.CreateOptions{})
	must(t, err)
	denied := runReader(t, "earlier")
	cancel, ended := start(t, Options{NodeName: "leased", Kubeconfig: kubeconfig})
	time.Sleep(6 * time.Second)
	leases := client.CoordinationV1().Leases(v1alpha1.Namespace)
	if _, err := leases.Get(t.Context(), v1alpha1.AgentReaderLease, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("a manager without permissions tells agents that it watches: %v", err)
	}
	denied()
	runReader(t, "manager", "system:masters")

	var lease *v1alpha1.NodeAgentLease
	eventually(t, 2*renewPeriod+time.Minute, "a lease of the agent", func() bool {
		lease, err = ours.NodeAgentLeases.Get(t.Context(), "leased", metav1.GetOptions{})
		return err == nil
	})
	report, err := ours.NodeAgents.Get(t.Context(), "leased", metav1.GetOptions{})
	must(t, err)
	if !report.Status.RenewTime.Before(&lease.RenewTime) || len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].Kind != "Node" {
		t.Errorf("the report is of %s, the lease of %s; its owners are %v, want the Node", report.Status.RenewTime, lease.RenewTime, lease.OwnerReferences)
	}
	mark := []byte(`{"metadata":{"annotations":{"` + v1alpha1.AgentSilentAnnotation + `":"` + report.Status.Renewed() + `"}}}`)
	report, err = ours.NodeAgents.Patch(t.Context(), "leased", types.MergePatchType, mark, metav1.PatchOptions{})
	must(t, err)
	if !report.Silent() {
		t.Fatal("it is not silent: nothing is tested")
	}
	eventually(t, renewPeriod*3/4, "a report after the mark", func() bool {
		report, err = ours.NodeAgents.Get(t.Context(), "leased", metav1.GetOptions{})
		return err == nil && !report.Silent()
	})
	ends(t, cancel, ended)
}

// runReader runs the manager's reader of leases as a user, until the test ends or it is told to.
func runReader(t *testing.T, user string, groups ...string) context.CancelFunc {
	t.Helper()
	data, err := plane.Kubeconfig(user, groups...)
	must(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	must(t, err)
	ours, err := objects.New(config)
	must(t, err)
	reader, err := agents.New(kubernetes.NewForConfigOrDie(config), ours, user)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go reader.Run(ctx)
	return cancel
}

func eventually(t *testing.T, limit time.Duration, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > limit {
			t.Fatalf("%s: not within %s", what, limit)
		}
	}
}
