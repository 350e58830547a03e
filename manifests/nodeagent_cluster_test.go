package manifests_test

import (
	"bytes"
	"context"
	"maps"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/templates"
)

const agentUser = "system:serviceaccount:" + v1alpha1.Namespace + ":" + v1alpha1.AgentName

// applyNodeAgent does what the phase does, with a key of these bytes.
func applyNodeAgent(t *testing.T, key byte) {
	t.Helper()
	p, err := templates.Load("onprem")
	if err != nil {
		t.Fatal(err)
	}
	v := manifeststest.Values(p, p.Modes[0], "v1.36.0", true)
	v.NodeAgent = true
	objects, err := manifests.NodeAgent(p, v)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := manifests.HeartbeatSecret(bytes.Repeat([]byte{key}, 32))
	if err != nil {
		t.Fatal(err)
	}
	applier, err := apply.NewCluster(cluster.Config, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := applier.Apply(t.Context(), apply.NodeAgent, append(objects, secret)); err != nil {
		t.Fatal(err)
	}
}

// The RBAC of all agents is one. What keeps an agent of one Node from speaking for another is in its token.
func TestCluster_NodeAgent_WritesItsOwnReportOnly(t *testing.T) {
	applyNodeAgent(t, 1)
	a, nobody := agentOn(t, "agent-a"), agentOn(t, "")
	created := func(client dynamic.Interface, name string) error {
		object := nodeAgent(name)
		_, err := client.Resource(nodeAgents()).Create(t.Context(), object, metav1.CreateOptions{})
		return err
	}
	// A definition is served, and a policy holds, a moment after they are there.
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			_, err := a.Resource(nodeAgents()).Create(ctx, nodeAgent("agent-b"), metav1.CreateOptions{DryRun: []string{"All"}})
			return apierrors.IsForbidden(err) && bytes.Contains([]byte(err.Error()), []byte("is not that of Node")), nil
		})
	if err != nil {
		t.Fatalf("the policy refuses nothing: %v", err)
	}
	if err := created(a, "agent-a"); err != nil {
		t.Errorf("create the own report: %v", err)
	}
	if err := created(nobody, "agent-c"); !apierrors.IsForbidden(err) {
		t.Errorf("create with a token that names no Node: got %v, want it forbidden", err)
	}
	admin, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := created(admin, "agent-b"); err != nil {
		t.Errorf("create as the administrator: %v", err)
	}
	for name, wantForbidden := range map[string]bool{"agent-a": false, "agent-b": true} {
		_, err := a.Resource(nodeAgents()).Patch(t.Context(), name, "application/merge-patch+json",
			[]byte(`{"status":{"renewTime":"2026-11-21T10:00:00.000000Z","announced":1,"routed":0}}`), metav1.PatchOptions{}, "status")
		if apierrors.IsForbidden(err) != wantForbidden || !wantForbidden && err != nil {
			t.Errorf("write the status of %s: %v, want it forbidden: %t", name, err, wantForbidden)
		}
	}
	expectOwnOnly(t, a, admin, "NodeRoutes", "noderoutes", nil)
	expectOwnOnly(t, a, admin, "NodeAnnouncements", "nodeannouncements", map[string]any{"announced": int64(0)})
	expectOwnOnly(t, a, admin, "NodeAgentLease", "nodeagentleases", map[string]any{"renewTime": "2026-11-21T10:00:00.000000Z"})
}

// expectOwnOnly has the agent of agent-a write its own object of a kind, and that of agent-b, which the administrator has made.
func expectOwnOnly(t *testing.T, a, admin dynamic.Interface, kind, resource string, fields map[string]any) {
	t.Helper()
	objects := v1alpha1.GroupVersion().WithResource(resource)
	for name, wantForbidden := range map[string]bool{"agent-a": false, "agent-b": true} {
		object := nodeAgent(name)
		object.SetKind(kind)
		maps.Copy(object.Object, fields)
		made, err := a.Resource(objects).Create(t.Context(), object, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) != wantForbidden || !wantForbidden && err != nil {
			t.Errorf("create the %s of %s: %v, want it forbidden: %t", kind, name, err, wantForbidden)
		}
		if wantForbidden {
			if made, err = admin.Resource(objects).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		_, err = a.Resource(objects).Update(t.Context(), made, metav1.UpdateOptions{})
		if apierrors.IsForbidden(err) != wantForbidden || !wantForbidden && err != nil {
			t.Errorf("write the %s of %s: %v, want it forbidden: %t", kind, name, err, wantForbidden)
		}
	}
}

// A key that agents have is never replaced: half of them would take the others' heartbeats for forged ones.
func TestCluster_NodeAgent_KeepsItsKey(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	key := func() []byte {
		s, err := client.CoreV1().Secrets(v1alpha1.Namespace).Get(t.Context(), v1alpha1.AgentName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s.Data[v1alpha1.HeartbeatKey]
	}
	applyNodeAgent(t, 1)
	before := key()
	applyNodeAgent(t, 2)
	if after := key(); !bytes.Equal(before, after) || len(after) != 32 {
		t.Errorf("the key was %x, and is %x", before, after)
	}
}

func TestCluster_Audit_NodeAgent(t *testing.T) {
	applyNodeAgent(t, 1)
	p, err := templates.Load("onprem")
	if err != nil {
		t.Fatal(err)
	}
	replay(t, agentUser, auditOf(t, p).Agents["node-agent"])
}

// agentOn is a client with the token of an agent's pod on the Node; of no pod, without one.
func agentOn(t *testing.T, node string) dynamic.Interface {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "of-" + node}}
		pod.Spec.NodeName, pod.Spec.ServiceAccountName = node, v1alpha1.AgentName
		pod.Spec.Containers = []corev1.Container{{Name: "node-agent", Image: "x"}}
		pod, err = client.CoreV1().Pods(v1alpha1.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	request, err := client.CoreV1().ServiceAccounts(v1alpha1.Namespace).CreateToken(t.Context(), v1alpha1.AgentName, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(cluster.Config)
	config.BearerToken = request.Status.Token
	agent, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return agent
}

func nodeAgent(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(v1alpha1.APIVersion)
	object.SetKind(v1alpha1.NodeAgentKind)
	object.SetName(name)
	return object
}

func nodeAgents() schema.GroupVersionResource {
	return v1alpha1.GroupVersion().WithResource("nodeagents")
}
