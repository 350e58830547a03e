package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// The admission policy that comes with the manager's permissions knows a Service by what the manager publishes of it.
func TestCluster_PortsOfNodes(t *testing.T) {
	cloudConfig := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(cloudConfig, []byte("apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	permitted(t, "onprem", templates.StaticPod)
	kubeconfig, err := plane.Kubeconfig(v1alpha1.StaticPodUser)
	if err != nil {
		t.Fatal(err)
	}
	start(t, kubeconfig, "--cloud-config="+cloudConfig)
	core := client(t, plane.Config).CoreV1()
	join(t, "edge", "198.18.0.7", corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{SystemUUID: uuid1, MachineID: machine1},
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0.7"}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	})
	initialized(t, "edge")
	services := core.Services("default")
	_, err = services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := services.Delete(context.WithoutCancel(t.Context()), "web", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	has := func(port int32) {
		t.Helper()
		eventually(t, fmt.Sprintf("port %d of the Node is the Service's", port), func(ctx context.Context) error {
			s, err := services.Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, i := range s.Status.LoadBalancer.Ingress {
				if i.IP == "198.18.0.7" && len(i.Ports) == 1 && i.Ports[0].Port == port {
					return nil
				}
			}
			return fmt.Errorf("its status is %+v", s.Status)
		})
	}
	has(80)
	asks := func(ctx context.Context, port int32, how metav1.PatchOptions) error {
		patch := fmt.Appendf(nil, `{"spec":{"ports":[{"port":%d,"protocol":"TCP"}]}}`, port)
		_, err := services.Patch(ctx, "web", types.MergePatchType, patch, how)
		return err
	}
	eventually(t, "the policy is in force", func(ctx context.Context) error {
		err := asks(ctx, 6443, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "port 6443 is reserved on the Nodes") {
			return nil
		}
		return errors.Join(errors.New("the API server's port is given"), err)
	})
	if err := asks(t.Context(), 8080, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	has(8080)
}
