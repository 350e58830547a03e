package provider

import (
	"context"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientbuilder "k8s.io/controller-manager/pkg/clientbuilder"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Where load balancers are off, addresses from the time when they were on are announced no more.
func TestCluster_LoadBalancersOff(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(plane.Config)
	claims := client.NetworkingV1().IPAddresses()
	_, err := claims.Create(t.Context(), &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: "192.0.2.50", Labels: map[string]string{networkingv1.LabelManagedBy: v1alpha1.ClaimManager},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: "services", Namespace: "default", Name: "web",
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = claims.Delete(context.WithoutCancel(t.Context()), "192.0.2.50", metav1.DeleteOptions{}) })
	cloud, err := New(strings.NewReader("apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\nloadBalancers: " +
		"{enabled: false}\n"))
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	defer close(stop)
	cloud.Initialize(clientbuilder.SimpleControllerClientBuilder{ClientConfig: plane.Config}, stop)
	cloud.(*Cloud).SetInformers(informers.NewSharedInformerFactory(client, 0))
	until(t, "the claim is released", func() bool {
		_, err := claims.Get(t.Context(), "192.0.2.50", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
