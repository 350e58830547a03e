package adoption

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// bySample is a cluster that has been adopted with upstream's sample, and may delete Nodes.
func bySample(t *testing.T) (*machine.Machine, kubernetes.Interface) {
	t.Helper()
	m, client := plain(t)
	knowAll(t, client, map[string]string{v1alpha1.ProvidedNodeIPAnnotation: "x"})
	r, out := adoption(t, m, workflow.Inputs{
		Request: workflow.Request{Flags: config.CloudConfiguration{
			Provider: "sample", ControllerManager: config.ControllerManager{
				Image: "example.org/ccm:1", ExtraArgs: []string{"--cloud-provider=onprem"},
			},
		}},
	}, Adoption{Yes: true})
	runAll(t.Context(), t, r, out, []workflow.Phase{held(begin()), resolved(manager.RBAC()), resolved(manager.Addon()), resolved(manager.Record())})
	return m, client
}

// mayDeleteNodes tells whether the manager's ClusterRole has the permission.
func mayDeleteNodes(t *testing.T, client kubernetes.Interface) bool {
	t.Helper()
	role, err := client.RbacV1().ClusterRoles().Get(t.Context(), "ccmadm:sample", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "nodes") && slices.Contains(r.Verbs, "delete")
	})
}

// The permission to delete Nodes goes first, whatever of the manager a run that was cut short has left: one of another
// mode than the record says, or the permissions alone.
func TestCluster_Leave_TakesThePermissionFirst(t *testing.T) {
	for what, cutShort := range map[string]func(*testing.T, *machine.Machine){
		"a manager of another mode": func(t *testing.T, m *machine.Machine) {
			o := workflow.Inputs{Existing: true, Request: workflow.Request{Flags: config.CloudConfiguration{Mode: config.ModeDeployment}}}
			r, out := phasestest.Run{Inputs: o}.Must(t, m)
			if err := r.Do(t.Context(), []workflow.Phase{manager.Addon()}); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		},
		"no manager": func(t *testing.T, _ *machine.Machine) {
			applier, err := apply.NewCluster(phasestest.Cluster.Config, true)
			if err == nil {
				_, err = applier.Apply(t.Context(), apply.Addon, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			m, client := bySample(t)
			cutShort(t, m)
			if !mayDeleteNodes(t, client) {
				t.Fatal("there is no such permission to take")
			}
			r, out := adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Yes: true})
			runAll(t.Context(), t, r, out, []workflow.Phase{leavePreflight(), off(manager.RBAC())})
			if mayDeleteNodes(t, client) {
				t.Errorf("the permission to delete Nodes is left\n%s", out)
			}
			runAll(t.Context(), t, r, out, []workflow.Phase{off(manager.Addon())})
			apps, name := client.AppsV1(), "sample-cloud-controller-manager"
			_, err := apps.Deployments("kube-system").Get(t.Context(), name, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("the Deployment is left: %v", err)
			}
			_, err = apps.DaemonSets("kube-system").Get(t.Context(), name, metav1.GetOptions{})
			if is, want := err == nil, what != "no manager"; is != want {
				t.Errorf("there is a DaemonSet: %v, want %v", is, want)
			}
		})
	}
}
