package manifests_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/templates"
)

// edited is a Service, what was published of it, and an edit.
type edited struct {
	name string
	// annotations, ports and status are from before; the status is that of a Service with addresses of Nodes, changed.
	namespace   string
	annotations map[string]string
	ports       []int32
	status      func(*corev1.ServiceStatus)
	patch       string
	wantErr     string
}

func edits() []edited {
	ports := func(list ...int32) string { return patchOf(nil, list...) }
	return []edited{
		{name: "another port", patch: ports(8080)},
		{name: "no port at all", patch: `{"metadata":{"labels":{"a":"b"}}}`},
		{name: "SSH", patch: ports(22), wantErr: "port 22 is reserved on the Nodes, whose addresses the Service has: use "},
		{name: "the API server's port", patch: ports(6443), wantErr: "port 6443 is"},
		{name: "one of a range", patch: ports(2380), wantErr: "port 2380 is"},
		{name: "a NodePort, beside its own port", patch: ports(80, 30080), wantErr: "port 30080 is"},
		{name: "that of BFD with TCP", patch: ports(3784)},
		{name: "that of BFD", patch: strings.ReplaceAll(ports(3784), "TCP", "UDP"), wantErr: "port 3784 is"},
		{name: "SSH, as it says", namespace: "edge", patch: patchOf(map[string]string{v1alpha1.PortsAnnotation: "any"}, 22)},
		{name: "SSH, as a tenant says", patch: patchOf(map[string]string{v1alpha1.PortsAnnotation: "any"}, 22), wantErr: "port 22 is"},
		{
			name: "SSH, as it says wrongly", namespace: "edge", wantErr: "port 22 is",
			patch: patchOf(map[string]string{v1alpha1.PortsAnnotation: "22"}, 22),
		},
		{
			name: "SSH, which it has, and says so no more", ports: []int32{22},
			annotations: map[string]string{v1alpha1.PortsAnnotation: "any"},
			patch:       `{"metadata":{"annotations":{"` + v1alpha1.PortsAnnotation + `":null}}}`,
		},
		{
			name: "SSH, which it was given while no Node was ready", ports: []int32{80, 22},
			annotations: map[string]string{v1alpha1.PortsAnnotation: "any"},
			patch:       `{"metadata":{"annotations":{"` + v1alpha1.PortsAnnotation + `":null}}}`,
			status:      func(s *corev1.ServiceStatus) { s.LoadBalancer.Ingress[0].Ports = s.LoadBalancer.Ingress[0].Ports[:1] },
		},
		{
			name: "SSH, until another address is announced", patch: ports(22), wantErr: "port 22 is",
			status: func(s *corev1.ServiceStatus) { s.Conditions[0].Reason = "NotAnnounced" },
		},
		{name: "SSH, of another type", patch: strings.Replace(ports(22), `{"ports"`, `{"type":"ClusterIP","ports"`, 1)},
		{
			name: "SSH, with the address of a pool", patch: ports(22),
			status: func(s *corev1.ServiceStatus) { s.LoadBalancer.Ingress[0].Ports = nil },
		},
		{
			name: "SSH, with an address that kube-proxy leaves alone", patch: ports(22),
			status: func(s *corev1.ServiceStatus) {
				s.LoadBalancer.Ingress[0].IPMode = new(corev1.LoadBalancerIPModeProxy)
			},
		},
		{name: "SSH, of somebody else", patch: ports(22), status: func(s *corev1.ServiceStatus) { s.Conditions = nil }},
		{
			name: "SSH, of one that has nothing yet", patch: ports(22),
			status: func(s *corev1.ServiceStatus) { s.LoadBalancer.Ingress = nil },
		},
		{
			name: "many ports of many Nodes", ports: upwards(1000, 200), status: onNodes(50),
			patch: ports(upwards(1100, 200)...),
		},
		{
			name: "so many that they cannot be compared", ports: upwards(1000, 200), status: onNodes(50),
			patch: ports(upwards(30000, 500)...), wantErr: "'" + v1alpha1.NodePortsPolicyName + "'",
		},
	}
}

// An edit that gives a port of the Nodes to a Service is refused where kube-proxy would take it at once.
func TestCluster_NodePortsPolicy(t *testing.T) {
	p, err := templates.Load("onprem")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifests.RBAC(p, manifeststest.Values(p, p.Modes[0], "v1.36.0", true))
	if err != nil {
		t.Fatal(err)
	}
	applier, err := apply.NewCluster(cluster.Config, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := applier.Apply(t.Context(), apply.RBAC, objects); err != nil {
		t.Fatal(err)
	}
	all := kubernetes.NewForConfigOrDie(cluster.Config).CoreV1()
	services := func(namespace string) typedcorev1.ServiceInterface { return all.Services(cmp.Or(namespace, "default")) }
	edge := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "edge", Labels: map[string]string{v1alpha1.PortsLabel: "allow"}}}
	if _, err := all.Namespaces().Create(t.Context(), edge, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	edit := func(ctx context.Context, namespace, name, patch string) error {
		_, err := services(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{"All"}})
		return err
	}
	for i, tt := range edits() {
		t.Run(tt.name, func(t *testing.T) {
			name := fmt.Sprintf("edited-%d", i)
			publish(t, services(tt.namespace), name, tt)
			publish(t, services(""), name+"-probe", edited{})
			err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
				func(ctx context.Context) (bool, error) {
					return edit(ctx, "", name+"-probe", patchOf(nil, 22)) != nil, nil
				})
			if err != nil {
				t.Fatal("the policy is not in force")
			}
			err = edit(t.Context(), tt.namespace, name, tt.patch)
			if tt.wantErr == "" && err != nil {
				t.Error(err)
			}
			if tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
}

// publish makes a Service as its edit finds it.
func publish(t *testing.T, client typedcorev1.ServiceInterface, name string, e edited) {
	t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: e.annotations},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(false),
			Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	if e.ports != nil {
		s.Spec.Ports = nil
	}
	for _, number := range e.ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint(number), Port: number})
	}
	s, err := client.Create(t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	s.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.LoadBalancerReady, Status: metav1.ConditionTrue, Reason: "NodeIP", LastTransitionTime: metav1.Now(),
	}}
	of := corev1.LoadBalancerIngress{IP: "198.18.0.1", IPMode: new(corev1.LoadBalancerIPModeVIP)}
	for _, port := range s.Spec.Ports {
		of.Ports = append(of.Ports, corev1.PortStatus{Port: port.Port, Protocol: port.Protocol})
	}
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{of}
	if e.status != nil {
		e.status(&s.Status)
	}
	if _, err := client.UpdateStatus(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// onNodes has the same ports on many Nodes.
func onNodes(count int) func(*corev1.ServiceStatus) {
	return func(s *corev1.ServiceStatus) {
		first := s.LoadBalancer.Ingress[0]
		for i := range count {
			first.IP = fmt.Sprintf("198.18.1.%d", i)
			s.LoadBalancer.Ingress = append(s.LoadBalancer.Ingress, first)
		}
	}
}

func upwards(first int32, count int) (list []int32) {
	for i := range count {
		list = append(list, first+int32(i))
	}
	return list
}

// patchOf has these ports of TCP, and annotations.
func patchOf(annotations map[string]string, ports ...int32) string {
	var list []map[string]any
	for _, number := range ports {
		list = append(list, map[string]any{"name": fmt.Sprint(number), "port": number, "protocol": "TCP"})
	}
	patch, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": annotations}, "spec": map[string]any{"ports": list},
	})
	return string(patch)
}
