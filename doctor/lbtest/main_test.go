package lbtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/lbtest/traffic"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

var plane *manifeststest.ControlPlane

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &plane)) }

// world is a cluster as far as the API server and the sockets of this machine see it: a load balancer that gives loopback addresses
// to Services and answers there for the server pods, and kubelets that make pods Ready. Its faults are those of load balancers.
type world struct {
	t         testing.TB
	client    kubernetes.Interface
	namespace string
	prefix    string // of addresses
	node      string
	ip        string // of this machine, as the API server's proxy reaches it
	port      int    // of the client pods

	// pool is how many addresses there are, from the prefix and 10 on.
	pool int
	// faults are what is wrong.
	noAddress, deaf, deafUDP, translates, answersAlways, keepsPort, keepsAddress, ignoresAffinity, ignoresRequests, givesTwice, sticks bool
	// nodeIP has all Services share the Node's own address.
	nodeIP bool
	// lossy is how many of a hundred connections are closed without an answer.
	lossy int
	// imageMissing has the kubelet report that for each pod.
	imageMissing bool

	mu     sync.Mutex
	fronts map[string]*front // by Service and port
	given  map[string]string // address by Service
	former map[string]bool   // fronts that stay open
}

// front is a listening address of a Service.
type front struct {
	stop   context.CancelFunc
	mu     sync.Mutex
	pods   []corev1.Pod
	svc    corev1.Service
	sticky string
	tcp    net.Listener
	udp    net.PacketConn
}

// newWorld starts a cluster with two Nodes until the test ends.
func newWorld(t testing.TB, number int, change ...func(*world)) *world {
	t.Helper()
	turns <- struct{}{}
	t.Cleanup(func() { <-turns })
	w := &world{
		t: t, client: plane.Admin(t), namespace: fmt.Sprintf("lb-test-%d", number), prefix: fmt.Sprintf("127.77.%d.", number), pool: 5,
		node: fmt.Sprintf("world-%d", number), fronts: map[string]*front{}, given: map[string]string{}, former: map[string]bool{},
	}
	for _, c := range change {
		c(w)
	}
	w.ip = ownAddress(t)
	agents, err := net.Listen("tcp", w.ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	w.port = agents.Addr().(*net.TCPAddr).Port
	server := &http.Server{Handler: http.HandlerFunc(w.agent), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(agents) }()
	w.addNode(t)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			w.sync(ctx)
			time.Sleep(30 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		stop()
		work.Wait()
		_ = server.Close()
		for _, f := range w.fronts {
			f.stop()
		}
		_ = w.client.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), w.node, metav1.DeleteOptions{})
	})
	return w
}

// ownAddress is one of this machine that is no loopback address: the API server's proxy refuses those.
func ownAddress(t testing.TB) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	t.Fatal("this machine has no IPv4 address but those of its loopback interface: the API server's proxy reaches no pod then")
	return ""
}

func (w *world) addNode(t testing.TB) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress}}
	if w.nodeIP {
		node.Status.Addresses[0].Address = w.prefix + "10"
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := w.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// agent is that of all client pods: each request knows its run.
func (w *world) agent(out http.ResponseWriter, r *http.Request) {
	traffic.Agent(r.URL.Query().Get("run")).ServeHTTP(out, r)
}

// sync does what is to be done; what fails is done the next time.
func (w *world) sync(ctx context.Context) {
	pods, err := w.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range pods.Items {
		w.syncPod(ctx, &pods.Items[i])
	}
	services, err := w.client.CoreV1().Services(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	seen := map[string]bool{}
	for i := range services.Items {
		w.syncService(ctx, &services.Items[i], pods.Items, seen)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, f := range w.fronts {
		if !seen[key] && !w.former[key] {
			f.stop()
			delete(w.fronts, key)
		}
	}
}

// syncPod is the kubelet.
func (w *world) syncPod(ctx context.Context, pod *corev1.Pod) {
	pods := w.client.CoreV1().Pods(w.namespace)
	switch {
	case pod.DeletionTimestamp != nil:
		_ = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	case w.imageMissing:
		pod.Status.Phase = corev1.PodPending
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"},
		}}}
		_, _ = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	case !isReady(pod):
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: w.ip, PodIPs: []corev1.PodIP{{IP: w.ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
		_, _ = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
}

const nodeAddress = "192.0.2.77"

const cleanup = "service.kubernetes.io/load-balancer-cleanup"

// syncService is the cloud-controller-manager, and the kube-proxy.
func (w *world) syncService(ctx context.Context, svc *corev1.Service, pods []corev1.Pod, seen map[string]bool) {
	services := w.client.CoreV1().Services(w.namespace)
	balanced := svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.DeletionTimestamp == nil
	address := w.allocate(svc, balanced)
	if !balanced {
		if len(svc.Finalizers) > 0 || len(svc.Status.LoadBalancer.Ingress) > 0 {
			svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
			_, _ = services.UpdateStatus(ctx, svc, metav1.UpdateOptions{})
			if now, err := services.Get(ctx, svc.Name, metav1.GetOptions{}); err == nil {
				now.Finalizers = nil
				_, _ = services.Update(ctx, now, metav1.UpdateOptions{})
			}
		}
		return
	}
	if address == "" {
		return
	}
	port := svc.Spec.Ports[0]
	key := fmt.Sprintf("%s %s %s %d", svc.Name, address, port.Protocol, port.Port)
	seen[key] = true
	w.serve(key, address, svc, pods) //nolint:contextcheck // a front outlives a pass
	if hosts := hostsOf(svc); len(hosts) == 1 && hosts[0] == address && len(svc.Finalizers) > 0 {
		return
	}
	svc.Finalizers = []string{cleanup}
	metav1.SetMetaDataAnnotation(&svc.ObjectMeta, "metallb.io/ip-allocated-from-pool", "test")
	updated, err := services.Update(ctx, svc, metav1.UpdateOptions{})
	if err != nil {
		return
	}
	updated.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	_, _ = services.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
}

// allocate gives a Service its address, or takes it back.
func (w *world) allocate(svc *corev1.Service, balanced bool) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !balanced:
		if !w.keepsAddress {
			delete(w.given, svc.Name)
		}
		return ""
	case w.noAddress:
		return ""
	case w.nodeIP:
		return w.prefix + "10"
	case w.given[svc.Name] != "":
		return w.given[svc.Name]
	}
	wish := svc.Spec.LoadBalancerIP
	if asked := svc.Annotations["metallb.io/loadBalancerIPs"]; asked != "" {
		wish = asked
	}
	for i := range w.pool {
		address := w.prefix + strconv.Itoa(10+i)
		shares := svc.Annotations["metallb.io/allow-shared-ip"] != "" || w.givesTwice
		free := !slices.Contains(values(w.given), address) || shares && wish != ""
		if free && (wish == "" || wish == address || w.ignoresRequests) {
			w.given[svc.Name] = address
			return address
		}
	}
	return ""
}

func values(m map[string]string) (list []string) {
	for _, v := range m {
		list = append(list, v)
	}
	return list
}

// serve opens the front of a Service while it has endpoints, and closes it while it has none.
func (w *world) serve(key, address string, svc *corev1.Service, pods []corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var chosen []corev1.Pod
	for _, pod := range pods {
		if labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(pod.Labels)) && isReady(&pod) {
			chosen = append(chosen, pod)
		}
	}
	f := w.fronts[key]
	if f != nil && len(chosen) == 0 && !w.answersAlways {
		f.stop()
		delete(w.fronts, key)
		return
	}
	if f != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.svc = *svc
		if len(chosen) > 0 {
			f.pods = chosen
		}
		return
	}
	if len(chosen) == 0 || w.deaf {
		return
	}
	w.open(key, address, &front{pods: chosen, svc: *svc})
}

func (w *world) open(key, address string, f *front) {
	at := withPort(address, f.svc.Spec.Ports[0].Port)
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	f.stop = stop
	udp := f.svc.Spec.Ports[0].Protocol == corev1.ProtocolUDP
	var err error
	switch {
	case udp && w.deafUDP:
		return
	case udp:
		f.udp, err = net.ListenPacket("udp", at)
	default:
		f.tcp, err = net.Listen("tcp", at)
	}
	if err != nil {
		return // the next time
	}
	w.former[key] = w.keepsPort
	w.fronts[key] = f
	context.AfterFunc(ctx, func() {
		if udp {
			_ = f.udp.Close()
		} else {
			_ = f.tcp.Close()
		}
	})
	if udp {
		go w.relayUDP(f)
	} else {
		go w.relayTCP(f)
	}
}

// server is the one that answers the next request.
func (w *world) server(f *front) traffic.Identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	pod := f.pods[rand.IntN(len(f.pods))]
	if affine := f.svc.Spec.SessionAffinity == corev1.ServiceAffinityClientIP && !w.ignoresAffinity; affine || w.sticks {
		if f.sticky == "" {
			f.sticky = pod.Name
		}
		return traffic.Identity{Run: pod.Labels[v1alpha1.LBTestLabel], Server: f.sticky}
	}
	f.sticky = ""
	return traffic.Identity{Run: pod.Labels[v1alpha1.LBTestLabel], Server: pod.Name, Node: pod.Spec.NodeName}
}

// seen is a client's address as the server sees it.
func (w *world) seen(from string) string {
	if !w.translates {
		return from
	}
	return nodeAddress + ":1"
}

func (w *world) relayTCP(f *front) {
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if rand.IntN(100) < w.lossy {
			panic(http.ErrAbortHandler)
		}
		r.RemoteAddr = w.seen(r.RemoteAddr)
		w.server(f).ServeHTTP(out, r)
	})}
	_ = server.Serve(f.tcp)
}

func (w *world) relayUDP(f *front) {
	for {
		buffer := make([]byte, 1024)
		n, from, err := f.udp.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = f.udp.WriteTo(w.server(f).Datagram(buffer[:n], w.seen(from.String())), from)
	}
}
