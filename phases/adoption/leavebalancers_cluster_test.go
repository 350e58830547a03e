package adoption

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// claim is one of an address, whosever program makes it.
func claim(address, manager string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: address, Labels: map[string]string{networkingv1.LabelManagedBy: manager},
		},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "lb"},
		},
	}
}

// What our provider held of Services is given back between the end of what would take it again and that of its
// permissions, also where no --purge is asked for, and by the same command where that did not come to its end.
func TestCluster_Leave_ReleasesBalancers(t *testing.T) {
	m, client := plain(t)
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	runAll(t.Context(), t, r, out, append(Adopt()[1:6], resolved(manager.Record())))
	phasestest.Made(t, client.NetworkingV1().IPAddresses(), claim("192.0.2.50", v1alpha1.ClaimManager))
	there := func(what string, err error) bool {
		t.Helper()
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	}
	const name = "onprem-cloud-controller-manager"
	refuse, called := true, 0
	release := func(ctx context.Context, given kubernetes.Interface) error {
		called++
		_, err := given.AppsV1().DaemonSets("kube-system").Get(ctx, name, metav1.GetOptions{})
		if there("the manager", err) {
			t.Error("the manager is still there, which would take it again")
		}
		_, err = given.CoreV1().ServiceAccounts("kube-system").Get(ctx, name, metav1.GetOptions{})
		if !there("its account", err) {
			t.Error("what the manager may do has gone before")
		}
		if refuse {
			return finding.Refusedf("patch Services: it is refused")
		}
		return given.NetworkingV1().IPAddresses().Delete(ctx, "192.0.2.50", metav1.DeleteOptions{})
	}
	options := workflow.Inputs{Request: workflow.Request{ReleaseBalancers: release}}
	r, out = adoption(t, m, options, Adoption{Leave: true, Yes: true, KeepLoadBalancers: true})
	if err := leavePreflight().Do(t.Context(), r); err != nil ||
		!strings.Contains(out.String(), "would remove IPAddress/192.0.2.50\n") {
		t.Errorf("%v\n%s", err, out)
	}
	err := removeObjects().Do(t.Context(), r)
	phasestest.WantError(t, err, "release what is held of Services: patch Services", finding.ExitError)
	if _, err := workflow.ReadRecord(t.Context(), client); err != nil || called != 1 {
		t.Fatalf("it was called %d times; the record, by which the same command goes on: %v", called, err)
	}
	refuse = false
	runAll(t.Context(), t, r, out, []workflow.Phase{removeObjects()})
	if called != 2 || !strings.Contains(out.String(), "IPAddress/192.0.2.50 removed") {
		t.Errorf("it was called %d times\n%s", called, out)
	}
	_, err = client.CoreV1().ServiceAccounts("kube-system").Get(t.Context(), name, metav1.GetOptions{})
	if there("the account", err) {
		t.Error("the manager's account is left")
	}
}

// So it is where another provider comes: once nobody is left who would take it again.
func TestCluster_Adopt_ReleasesBalancers(t *testing.T) {
	m, client := adoptedByOnprem(t)
	claims := client.NetworkingV1().IPAddresses()
	phasestest.Made(t, claims, claim("192.0.2.50", v1alpha1.ClaimManager))
	refuse := true
	release := func(ctx context.Context, given kubernetes.Interface) error {
		_, err := given.AppsV1().DaemonSets("kube-system").Get(ctx, "onprem-cloud-controller-manager", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("the manager is still there, which would take it again: %v", err)
		}
		if refuse {
			return finding.Refusedf("patch Services: it is refused")
		}
		return given.NetworkingV1().IPAddresses().Delete(ctx, "192.0.2.50", metav1.DeleteOptions{})
	}
	r, out := adoption(t, m, workflow.Inputs{
		Command: "adopt",
		Request: workflow.Request{ReleaseBalancers: release, Flags: config.CloudConfiguration{
			Provider: "sample", ControllerManager: config.ControllerManager{
				Image: "example.org/ccm:1", ExtraArgs: []string{"--cloud-provider=onprem"},
			},
		}},
	}, Adoption{Yes: true})
	phasestest.WantError(t, formerProvider().Do(t.Context(), r), "release what is held of Services: patch Services",
		finding.ExitError)
	refuse = false
	runAll(t.Context(), t, r, out, []workflow.Phase{formerProvider()})
	if !strings.Contains(out.String(), "IPAddress/192.0.2.50 removed") {
		t.Errorf("the claim is left, or it is not said:\n%s", out)
	}
}

// Those that nobody would serve any more are named, and none of somebody else's class.
func TestCluster_Leave_LoadBalancers(t *testing.T) {
	m, client := plain(t)
	r, _ := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	if err := resolved(manager.Record()).Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	phasestest.Made(t, client.CoreV1().Services("default"), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "lb", Finalizers: []string{v1alpha1.LoadBalancerFinalizer}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	elsewhere := phasestest.Made(t, client.CoreV1().Services("default"), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new("metallb.io/x"),
			Ports: []corev1.ServicePort{{Port: 80}},
		},
	})
	elsewhere.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}}
	_, err := client.CoreV1().Services("default").UpdateStatus(t.Context(), elsewhere, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		patch := []byte(`{"metadata": {"finalizers": null}}`)
		_, err := client.CoreV1().Services("default").Patch(context.WithoutCancel(t.Context()), "lb",
			"application/merge-patch+json", patch, metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	r, _ = adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Yes: true})
	phasestest.WantError(t, leavePreflight().Do(t.Context(), r), "which would no longer be served or removed: Service/default/lb",
		finding.ExitRefused)
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Yes: true, KeepLoadBalancers: true})
	if err := leavePreflight().Do(t.Context(), r); err != nil ||
		!strings.Contains(out.String(), "no longer served: Service/default/lb;") {
		t.Errorf("%v\n%s", err, out)
	}
}
