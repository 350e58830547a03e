package adoption

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// What ccmadm has applied or written is gone behind --purge, the journal of the very run too. What only carries the
// label is left and named: a GitOps controller may have applied it.
func TestCluster_Leave_Purge(t *testing.T) {
	m, client := plain(t)
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	for _, p := range Adopt()[1:6] { // former-provider, begin, cloud-config, rbac, addon
		if err := p.Do(t.Context(), r); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	leases := client.CoordinationV1().Leases(v1alpha1.Namespace)
	phasestest.Made(t, leases, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName}})
	machinetest.Put(t, m, machine.KubeadmConfig, "of a day long ago")
	// Of writes that were killed.
	cut := []string{machine.ConfigDir + "/.machine.yaml8021", "/var/lib/kubelet/.kubeadm-flags.env77"}
	for _, path := range cut {
		machinetest.Put(t, m, path, "x")
	}
	phasestest.Made(t, client.CoreV1().ConfigMaps(v1alpha1.Namespace), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: v1alpha1.FormerAppliedName, Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager},
	}})
	phasestest.Made(t, client.CoreV1().ConfigMaps("default"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "forgotten", Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager},
	}})
	phasestest.Made(t, client.CoreV1().ConfigMaps("default"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}})
	phasestest.Made(t, client.NetworkingV1().IPAddresses(), claim("192.0.2.50", v1alpha1.ClaimManager))
	phasestest.Made(t, client.NetworkingV1().IPAddresses(), claim("192.0.2.51", "lb.example.com"))

	skip := Adoption{Leave: true, Yes: true, Purge: true}
	r, out = adoption(t, m, workflow.Inputs{Command: "leave"}, skip)
	for _, p := range []workflow.Phase{leavePreflight(), forgetMachine(), removeObjects(), purge()} {
		if err := p.Do(t.Context(), r); err != nil {
			t.Fatalf("%s: %v\n%s", p.Name, err, out)
		}
	}
	for _, want := range []string{
		"ConfigMap/default/forgotten stays: it has the label ",
		"would remove IPAddress/192.0.2.50\n", "IPAddress/192.0.2.50 removed",
		"Lease/kube-system/" + v1alpha1.LeaseName + " removed",
		"ConfigMap/kube-system/" + v1alpha1.JournalName + " removed", machine.KubeadmConfig + " removed",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q\n%s", want, out)
		}
	}
	left, err := leftOfOurs(t.Context(), r.Env, kindsOfOurs())
	if err != nil || len(left) != 1 || left[0].subject != "ConfigMap/default/forgotten" {
		t.Errorf("left are %v, %v", left, err)
	}
	if strings.Contains(out.String(), "would remove ConfigMap/default/forgotten") {
		t.Errorf("preflight announces what is left\n%s", out)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "theirs", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	addresses := client.NetworkingV1().IPAddresses()
	if _, err := addresses.Get(t.Context(), "192.0.2.50", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("our claim of an address is left: %v", err)
	}
	if _, err := addresses.Get(t.Context(), "192.0.2.51", metav1.GetOptions{}); err != nil {
		t.Errorf("somebody else's claim: %v", err)
	}
	for _, path := range append(cut, machine.ConfigDir) {
		if there, err := m.Exists(path); err != nil || there {
			t.Errorf("%s is there: %v, %v", path, there, err)
		}
	}
}

// It waits as long as was asked for, and goes on once load balancers are gone.
func TestCluster_Leave_WaitsForLoadBalancers(t *testing.T) {
	m, client := plain(t)
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	if err := resolved(manager.Record()).Do(t.Context(), r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	services := client.CoreV1().Services("default")
	phasestest.Made(t, services, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "lb", Finalizers: []string{v1alpha1.LoadBalancerFinalizer}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	r, _ = adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Yes: true, WaitLoadBalancers: 3 * time.Second})
	phasestest.WantError(t, leavePreflight().Do(t.Context(), r), "served or removed: Service/default/lb", finding.ExitRefused)
	go func() { // as the manager does, once the Service is deleted
		time.Sleep(3 * time.Second)
		patch := []byte(`{"metadata": {"finalizers": null}, "spec": {"type": "ClusterIP"}}`)
		ctx := context.WithoutCancel(t.Context())
		if _, err := services.Patch(ctx, "lb", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}()
	r, out = adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Yes: true, WaitLoadBalancers: time.Minute})
	if err := leavePreflight().Do(t.Context(), r); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// What is removed by hand is files, which nobody sees from afar: the machine itself says when they are gone.
func TestCluster_Leave_PurgeByHand(t *testing.T) {
	m, client := plain(t)
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	if err := held(begin()).Do(t.Context(), r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, out = adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Yes: true, Purge: true, NodeTimeout: fleet.NodeTimeout})
	a, err := adoptionOf(r).newAdopter(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 2)
	byHand := a.step
	a.step = reported{byHand, asked, time.Second}
	n := &fleet.Node{Name: "w1", IP: "198.18.0.101"} // whose kubelet has left already
	err = workflow.AsError(a.leave(t.Context(), n))
	<-asked
	phasestest.WantError(t, err, "for `ccmadm node plain --purge` there", finding.ExitNotInTime)
	if want := "on w1, as root, run: ccmadm node plain --purge\n"; !strings.Contains(out.String(), want) {
		t.Errorf("it does not say %q\n%s", want, out)
	}
	r, out = adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Yes: true, NodeTimeout: fleet.NodeTimeout})
	without, err := adoptionOf(r).newAdopter(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	without.step = reported{without.step, asked, time.Minute}
	shown := *n
	shown.External = true
	if err := without.plain(t.Context(), &shown); err != nil {
		t.Fatalf("without --purge, the note of a run that was cut short is waited for: %v\n%s", err, out)
	}
	<-asked
	leftInRunBefore(t, client, "w1")
	if err := without.leave(t.Context(), n); err != nil { // the note goes
		t.Fatalf("%v\n%s", err, out)
	}
	if node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{}); err != nil ||
		node.Annotations[v1alpha1.PurgeAnnotation] != "" {
		t.Errorf("the note is left: %v", err)
	}

	worker := workerOf(t, "w1")
	machinetest.Put(t, worker, machine.KubeadmConfig, "of a day long ago")
	done := make(chan error, 1)
	a.step = reported{byHand, asked, time.Minute}
	go func() { done <- a.leave(t.Context(), n) }()
	<-asked
	var there bytes.Buffer
	o := kubelet.NodeOptions{Purge: true, Timeout: time.Second}
	if err := kubelet.Plain(t.Context(), kubelet.NewNode(worker, o, workflow.Streams{Out: &there, Err: &there}, "test"), o); err != nil {
		t.Fatalf("%v\n%s", err, &there)
	}
	if err := <-done; err != nil {
		t.Errorf("the machine has said that it is done: %v\n%s", err, out)
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
	if err != nil || node.Annotations[v1alpha1.PurgeAnnotation] != "" {
		t.Errorf("the note is left: %v", err)
	}
}

// reported tells when a step was asked for, and waits for its effect as long as the test says.
type reported struct {
	fleet.Runner

	asked    chan<- struct{}
	patience time.Duration
}

func (w reported) Run(ctx context.Context, n *fleet.Node, task fleet.Task) error {
	defer func() { w.asked <- struct{}{} }()
	return w.Runner.Run(ctx, n, task)
}

func (w reported) Patience() time.Duration { return w.patience }
