package phases

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/machine"
	"github.com/ccmadm/ccmadm/phases/machine/machinetest"
)

// What carries our label is gone behind --purge, the journal of the very run too, and what does not is left.
func TestCluster_Leave_Purge(t *testing.T) {
	m, client := plain(t)
	d, out := adoption(t, m, Options{}, Adoption{Yes: true})
	for _, p := range Adopt()[1:5] { // begin, cloud-config, rbac, addon
		if err := p.run(t.Context(), d); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	leases := client.CoordinationV1().Leases(v1alpha1.Namespace)
	made(t, leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName}})
	machinetest.Put(t, m, machine.KubeadmConfig, "of a day long ago")
	made(t, client.CoreV1().ConfigMaps("default"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "forgotten", Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager},
	}})
	made(t, client.CoreV1().ConfigMaps("default"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})

	skip := Adoption{Leave: true, Yes: true, Purge: true}
	d, out = adoption(t, m, Options{Command: "leave"}, skip)
	for _, p := range []Phase{leavePreflight(), forgetMachine(), removeObjects(), purge()} {
		if err := p.run(t.Context(), d); err != nil {
			t.Fatalf("%s: %v\n%s", p.Name, err, out)
		}
	}
	for _, want := range []string{
		"would remove ConfigMap/default/forgotten\n", "ConfigMap/default/forgotten removed",
		"Lease/kube-system/" + v1alpha1.LeaseName + " removed",
		"ConfigMap/kube-system/" + v1alpha1.JournalName + " removed", machine.KubeadmConfig + " removed",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q\n%s", want, out)
		}
	}
	left, err := leftOfOurs(t.Context(), d)
	if err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "theirs", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if there, err := m.Exists(machine.ConfigDir); err != nil || there {
		t.Errorf("%s is there: %v, %v", machine.ConfigDir, there, err)
	}
}

// It waits as long as was asked for, and goes on once load balancers are gone.
func TestCluster_Leave_WaitsForLoadBalancers(t *testing.T) {
	m, client := plain(t)
	d, out := adoption(t, m, Options{}, Adoption{Yes: true})
	if err := resolved(record()).run(t.Context(), d); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	services := client.CoreV1().Services("default")
	made(t, services, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "lb", Finalizers: []string{v1alpha1.LoadBalancerFinalizer}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	d, _ = adoption(t, m, Options{}, Adoption{Leave: true, Yes: true, WaitLoadBalancers: 3 * time.Second})
	wantError(t, leavePreflight().run(t.Context(), d), "remove any more: Service/default/lb", finding.ExitRefused)
	go func() { // as the manager does, once the Service is deleted
		time.Sleep(3 * time.Second)
		patch := []byte(`{"metadata": {"finalizers": null}, "spec": {"type": "ClusterIP"}}`)
		ctx := context.WithoutCancel(t.Context())
		_, _ = services.Patch(ctx, "lb", "application/merge-patch+json", patch, metav1.PatchOptions{})
	}()
	d, out = adoption(t, m, Options{}, Adoption{Leave: true, Yes: true, WaitLoadBalancers: time.Minute})
	if err := leavePreflight().run(t.Context(), d); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
