package host

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
)

const (
	// serviceAttempts are so many that one control plane of three that has just gone does not count, each of attemptTimeout.
	serviceAttempts, attemptTimeout = 4, time.Second
	// proxyBegins is how long kube-proxy may take to write its rules.
	proxyBegins = 15 * time.Second
)

// service asks the API server at the addresses of its Service, which takes the rules of kube-proxy on this machine. Only
// where the server answers at its own address, before and after, is a Service that does not answer kube-proxy's fault.
func (h *looking) service(ctx context.Context) error {
	client, node, err := h.asKubelet()
	if client == nil || err != nil {
		return err
	}
	service, err := apiService(ctx, client)
	if err != nil {
		return err
	}
	proxy, err := kubeProxy(ctx, client, node)
	if err != nil {
		return err
	}
	seen := &diagnosis.HostService{}
	if proxy != nil {
		seen.Proxy, seen.ProxyState = proxy.Name, proxyState(proxy)
		if began := proxyStarted(proxy); began != nil && h.Now().Sub(began.Time) < proxyBegins {
			return nil
		}
	}
	for _, ip := range service.Spec.ClusterIPs {
		seen.Address = net.JoinHostPort(ip, "443")
		if err := h.answers(ctx, seen.Address); err != nil {
			seen.Error = finding.Clean(redact.Text(err.Error()))
			break
		}
	}
	if seen.Error != "" {
		if _, err := apiService(ctx, client); err != nil { // it has just gone, which says nothing of kube-proxy
			return err
		}
	}
	h.seen.Service = seen
	return nil
}

func apiService(ctx context.Context, client kubernetes.Interface) (*corev1.Service, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	service, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get Service/default/kubernetes as this machine's kubelet: %w", err)
	}
	return service, nil
}

// kubeProxy is the pod on this machine's Node, or nil where something else does its work.
func kubeProxy(ctx context.Context, client kubernetes.Interface, node string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	list, err := client.CoreV1().Pods(v1alpha1.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(), LabelSelector: "k8s-app=kube-proxy",
	})
	if err != nil {
		return nil, fmt.Errorf("list pods of kube-proxy on Node/%s as its kubelet: %w", node, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

// proxyState is why kube-proxy does not run; empty where it does.
func proxyState(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		switch {
		case s.State.Waiting != nil:
			return finding.Clean(s.State.Waiting.Reason)
		case s.State.Terminated != nil:
			return finding.Clean(s.State.Terminated.Reason)
		}
	}
	return ""
}

func proxyStarted(pod *corev1.Pod) *metav1.Time {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Running != nil {
			return &s.State.Running.StartedAt
		}
	}
	return nil
}

// answers is nil when any server answers there, whatever it says. No credential is sent.
func (h *looking) answers(ctx context.Context, address string) error {
	var last error
	for range serviceAttempts {
		if last = h.ask(ctx, address); last == nil {
			return nil
		}
		if ctx.Err() != nil { // there is no time left to ask
			return fmt.Errorf("ask %s: %w", address, ctx.Err())
		}
	}
	return last
}

func (h *looking) ask(ctx context.Context, address string) error {
	_, err := h.status(ctx, address, "/version")
	return err
}

// status is that of an API server's answer, whatever its certificate is.
func (h *looking) status(ctx context.Context, address, path string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+path, nil)
	if err != nil {
		return 0, err
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, DialContext: h.Dial,
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// asKubelet is a client of this machine's kubelet, and its Node's name. It is nil where the kubelet does not run or has not
// come as far as having a Node, which are other findings.
func (h *looking) asKubelet() (client kubernetes.Interface, node string, err error) {
	config, node, err := h.credentials()
	if h.seen.Unit == nil || h.seen.Unit.PID == 0 || err == nil && node == "" || h.registersNothing() {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	client, err = kubernetes.NewForConfig(config)
	if err != nil {
		return nil, "", fmt.Errorf("connect as this machine's kubelet: %w", err)
	}
	return client, node, nil
}
