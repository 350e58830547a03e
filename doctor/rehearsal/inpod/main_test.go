package inpod

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/rehearsal"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/templates"
)

var plane *manifeststest.ControlPlane

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &plane)) }

// kubelet is the scheduler and the kubelet of one control plane, as far as the API server sees them.
type kubelet struct {
	client kubernetes.Interface
	// status is what it says of a pod that it has; its phase ends it. Log is what the container writes.
	status func(*corev1.Pod) corev1.PodStatus
	log    func(ctx context.Context, w io.Writer, pod *corev1.Pod)
}

// running says that the container runs.
func running(*corev1.Pod) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "rehearsal", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}}
}

// start adds the Node cp1, and lets the kubelet work until the test ends.
func (k *kubelet) start(t testing.TB) {
	t.Helper()
	k.client = plane.Admin(t)
	server := httptest.NewTLSServer(k)
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp1"}}
	node.Labels = map[string]string{v1alpha1.ControlPlaneLabel: ""}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	if _, err := k.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			k.sync(ctx)
			time.Sleep(50 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		ctx := context.WithoutCancel(t.Context())
		if err := k.client.CoreV1().Nodes().Delete(ctx, "cp1", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// sync does what is to be done; what fails is done the next time.
func (k *kubelet) sync(ctx context.Context) {
	list, err := k.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.RehearsalLabel})
	if err != nil {
		return
	}
	for i := range list.Items {
		pod := &list.Items[i]
		pods := k.client.CoreV1().Pods(pod.Namespace)
		switch status := k.status(pod); {
		case pod.DeletionTimestamp != nil:
			_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		case pod.Spec.NodeName == "" && len(status.Conditions) == 0:
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}}
			binding.Target = corev1.ObjectReference{Kind: "Node", Name: "cp1"}
			_ = pods.Bind(ctx, binding, metav1.CreateOptions{})
		case len(pod.Status.Conditions) == 0 || pod.Status.Conditions[0].Reason != "Told":
			if len(status.Conditions) == 0 {
				status.Conditions = []corev1.PodCondition{{Type: "Test", Status: corev1.ConditionTrue, Reason: "Told"}}
			}
			pod.Status = status
			_, _ = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
	}
}

// ServeHTTP has the log.
func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/") // /containerLogs/NAMESPACE/POD/CONTAINER
	if len(parts) != 5 || k.log == nil {
		http.Error(w, "the log cannot be read", http.StatusInternalServerError)
		return
	}
	pod, err := k.client.CoreV1().Pods(parts[2]).Get(r.Context(), parts[3], metav1.GetOptions{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusOK)
	k.log(r.Context(), flusher{w}, pod)
}

type flusher struct{ http.ResponseWriter }

func (f flusher) Write(data []byte) (int, error) {
	n, err := f.ResponseWriter.Write(data)
	f.ResponseWriter.(http.Flusher).Flush()
	return n, err
}

// account is the pod's own way to the API server: the token of its ServiceAccount.
func account(ctx context.Context, client kubernetes.Interface, name string) (*rest.Config, error) {
	request := &authenticationv1.TokenRequest{}
	token, err := client.CoreV1().ServiceAccounts(name).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(plane.Config)
	config.BearerToken = token.Status.Token
	return config, nil
}

// task is what the Secret tells the pod to do.
func task(ctx context.Context, client kubernetes.Interface, name string) (o rehearsal.Options, err error) {
	secret, err := client.CoreV1().Secrets(name).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = json.Unmarshal(secret.Data["task.json"], &o)
	}
	return o, err
}

// options rehearse the sample with a program that is there.
func options(t testing.TB, program string) Options {
	t.Helper()
	p, err := templates.Load("sample")
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Cluster: plane.Config, Profile: p, OwnImage: "registry.example/ccmadm:v1", Holder: "test",
		Values: templates.Values{Image: "registry.example/ccm:v1", NodeLifecycle: true},
		Files:  map[string][]byte{"cloud.conf": []byte("secret")},
		Task: rehearsal.Options{
			Program: program, Lifecycle: true, MayRead: p.RBAC, Timeout: 2 * time.Minute,
			Progress: func(text string) { t.Log(text) },
		},
	}
}

// left are the objects of rehearsals that are there and are not on their way out.
func left(t testing.TB) []string {
	t.Helper()
	r, err := newRun(Options{Cluster: plane.Config})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, k := range kinds() {
		labelled := metav1.ListOptions{LabelSelector: v1alpha1.RehearsalLabel}
		list, err := r.dynamic.Resource(k.GroupVersionResource).List(t.Context(), labelled)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			if o.GetDeletionTimestamp() == nil {
				names = append(names, fmt.Sprintf("%s/%s/%s", k.Resource, o.GetNamespace(), o.GetName()))
			}
		}
	}
	return names
}
