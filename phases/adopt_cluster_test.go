package phases

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// plainKubeadm is kubeadm's own configuration of a cluster, with what was right when cloud providers were built in.
const plainKubeadm = `apiServer:
  extraArgs:
  - name: cloud-provider
    value: aws
apiVersion: kubeadm.k8s.io/v1beta4
clusterName: ber1
controllerManager: {}
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
networking:
  podSubnet: 10.244.0.0/16
`

// plain is a cluster that kubeadm has made, with a control plane, which is the machine, and a worker.
func plain(t *testing.T) (*machine.Machine, kubernetes.Interface) {
	t.Helper()
	m, runner := kubeletOf(t)
	runner.answers["kubelet --version"] = "Kubernetes v1.36.3\n"
	copyCA(t, newCA(t), m.Path(machine.PKIDir))
	put(t, m, machine.AdminConf, kubeconfigText(t, cluster.Config))
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: kubeadmConfigName, Namespace: metav1.NamespaceSystem},
		Data:       map[string]string{clusterConfigKey: plainKubeadm},
	}
	made(t, client.CoreV1().ConfigMaps(metav1.NamespaceSystem), config)
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	addNode(t, client, strings.ToLower(here), testAddress, map[string]string{v1alpha1.ControlPlaneLabel: ""})
	addNode(t, client, "w1", "198.18.0.101", nil)
	t.Cleanup(func() {
		applier, err := apply.NewCluster(cluster.Config, true)
		if err == nil {
			_, err = applier.Remove(context.WithoutCancel(t.Context()))
		}
		if err != nil {
			t.Error(err)
		}
	})
	return m, client
}

// maker is a client of one kind.
type maker[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// made creates an object for the time of the test.
func made[T metav1.Object](t *testing.T, c maker[T], object T) T {
	t.Helper()
	created, err := c.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		if err := c.Delete(context.WithoutCancel(t.Context()), object.GetName(), now); err != nil &&
			!apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return created
}

func addNode(t *testing.T, client kubernetes.Interface, name, ip string, labels map[string]string) {
	t.Helper()
	node := made(t, client.CoreV1().Nodes(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// adoption builds the data of a run.
func adoption(t *testing.T, m *machine.Machine, o Options, a Adoption) (*Data, *bytes.Buffer) {
	t.Helper()
	o.Living, o.Adoption = true, &a
	if !a.Leave && o.Flags.Provider == "" {
		o.Flags.Provider = "onprem"
	}
	d, out := run{options: o}.must(t, m)
	t.Cleanup(func() {
		if err := d.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return d, out
}

// obstacle is what stands against adoption.
type obstacle struct {
	name, want string
	options    Options
	happens    func(*testing.T)
}

// obstacles are what somebody else has in the cluster, or has not.
func obstacles(m *machine.Machine, client kubernetes.Interface) []obstacle {
	nodes := client.CoreV1().Nodes()
	pods := client.CoreV1().Pods("default")
	leases := client.CoordinationV1().Leases(metav1.NamespaceSystem)
	return []obstacle{
		{
			name: "another manager's pod", want: "another cloud-controller-manager is at work: Pod/default/vendor",
			happens: func(t *testing.T) {
				made(t, pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "vendor"}, Spec: corev1.PodSpec{
					AutomountServiceAccountToken: new(false),
					Containers: []corev1.Container{{
						Name: "c", Image: "vendor/ccm:1",
						Args: []string{"--cloud-provider=aws"},
					}},
				}})
			},
		},
		{
			name: "a manager that leads", want: "else_1 holds Lease/kube-system/cloud-controller-manager",
			happens: func(t *testing.T) {
				renewed := metav1.NewMicroTime(now.Add(-5 * time.Second))
				made(t, leases, &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("else_1"), RenewTime: &renewed},
				})
			},
		},
		{
			name: "a provider ID of another provider", want: "foreign: its provider ID aws:///i-1 is another provider's",
			happens: func(t *testing.T) {
				addNode(t, client, "foreign", "198.18.0.102", nil)
				node, err := nodes.Get(t.Context(), "foreign", metav1.GetOptions{})
				if err == nil {
					node.Spec.ProviderID = "aws:///i-1"
					_, err = nodes.Update(t.Context(), node, metav1.UpdateOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "a node that is not Ready, and has no address", want: "dead: it is not Ready; it has no InternalIP to be kept",
			happens: func(t *testing.T) {
				made(t, nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "dead"}})
			},
		},
		{
			name: "this machine's flags in two places", want: "--node-ip is set in two places",
			happens: func(t *testing.T) {
				put(t, m, "/etc/default/kubelet", "A=--node-ip=198.18.0.11\nB=--node-ip=198.18.0.11\n")
				t.Cleanup(func() { put(t, m, "/etc/default/kubelet", "") })
			},
		},
		{
			name: "a static pod", want: "adopt in mode StaticPod", happens: func(*testing.T) {},
			options: Options{Flags: v1alpha1.CloudConfiguration{Mode: v1alpha1.ModeStaticPod}},
		},
	}
}

// A kubelet writes its Node's addresses and version as it likes. They go on command lines and terminals of others.
func TestCluster_Adopt_HostileKubelet(t *testing.T) {
	m, client := plain(t)
	node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = append(node.Status.Addresses,
		corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fe80::1%$(reboot)\n;reboot"})
	node.Status.NodeInfo.KubeletVersion = "v1.36.3\x1b[2J\nw2"
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err) // the API server takes it
	}
	d, out := adoption(t, m, Options{DryRun: true}, Adoption{})
	if err := adoptPreflight().run(t.Context(), d); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	plan, err := plannedNodes(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if ip := plan[0].ip; plan[0].name != "w1" || ip != "198.18.0.101" {
		t.Errorf("address of %s is %q", plan[0].name, ip)
	}
	if strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "\nw2") {
		t.Errorf("the plan is forged: %q", out)
	}
}

func TestCluster_Adopt_Refused(t *testing.T) {
	m, client := plain(t)
	for _, tt := range obstacles(m, client) {
		t.Run(tt.name, func(t *testing.T) {
			tt.happens(t)
			d, out := adoption(t, m, tt.options, Adoption{Yes: true})
			err := adoptPreflight().run(t.Context(), d)
			wantError(t, err, tt.want, finding.ExitRefused)
			if t.Failed() {
				t.Log(out)
			}
		})
	}
	t.Run("nobody says yes", func(t *testing.T) {
		d, out := adoption(t, m, Options{}, Adoption{})
		wantError(t, adoptPreflight().run(t.Context(), d), "it was not confirmed", finding.ExitRefused)
		if !strings.Contains(out.String(), "[y/N]") || !strings.Contains(out.String(), "kubelet, initialize") {
			t.Errorf("the plan, and the question:\n%s", out)
		}
	})
}

// Nobody may delete a Node before every node is known to the provider; the record says so, too.
func TestCluster_Adopt_Lifecycle(t *testing.T) {
	m, client := plain(t)
	may := func() bool { // the provider's permission comes with an inventory, and here is none
		args := argsOf(t, client.AppsV1().DaemonSets("kube-system").Get, "onprem-cloud-controller-manager")
		return !strings.Contains(strings.Join(args, " "), "-cloud-node-lifecycle-controller")
	}
	steps := []Phase{held(rbac()), held(addon()), resolved(rbac()), resolved(addon()), resolved(record())}
	pass := func() *v1alpha1.Record {
		d, out := adoption(t, m, Options{}, Adoption{Yes: true})
		for i, p := range steps {
			if err := p.run(t.Context(), d); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if i == 1 && may() {
				t.Fatal("a Node may be deleted before any is initialized")
			}
		}
		rec, err := readRecord(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	if rec := pass(); may() || rec.Configuration.Lifecycle != v1alpha1.LifecycleOff ||
		rec.Configuration.Mode != v1alpha1.ModeDaemonSet {
		t.Errorf("with nodes that are not known: delete %v, record %+v", may(), rec.Configuration)
	}
	list, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].Spec.ProviderID = "onprem://ber1/" + list.Items[i].Name
		list.Items[i].Annotations = map[string]string{v1alpha1.ProvidedNodeIPAnnotation: internalIPs(&list.Items[i])}
		if _, err := client.CoreV1().Nodes().Update(t.Context(), &list.Items[i], metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	rec := pass()
	if !may() || rec.Configuration.Lifecycle != v1alpha1.LifecycleGuarded || rec.PodSubnet != "10.244.0.0/16" ||
		rec.Configuration.ClusterName != "ber1" {
		t.Errorf("with all nodes known: delete %v, pods %q, %+v", may(), rec.PodSubnet, rec.Configuration)
	}
	other := Options{Flags: v1alpha1.CloudConfiguration{Mode: v1alpha1.ModeDeployment}}
	second, _ := adoption(t, m, other, Adoption{Yes: true})
	wantError(t, adoptPreflight().run(t.Context(), second), "the cluster's record says DaemonSet", finding.ExitRefused)

	// The way back takes the permission away first, and leaves nothing in the end but what adopt did not bring.
	d, out := adoption(t, m, Options{}, Adoption{Leave: true, Yes: true})
	for _, p := range []Phase{leavePreflight(), off(rbac()), off(addon()), forgetMachine()} {
		if err := p.run(t.Context(), d); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if may() {
		t.Error("a Node may be deleted while the cluster leaves")
	}
	if err := removeObjects().run(t.Context(), d); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for what, get := range map[string]func() error{
		"record": func() error { _, err := readRecord(t.Context(), client); return err },
		"manager": func() error {
			_, err := client.AppsV1().DaemonSets("kube-system").Get(t.Context(), "onprem-cloud-controller-manager",
				metav1.GetOptions{})
			return err
		},
	} {
		if err := get(); !apierrors.IsNotFound(err) {
			t.Errorf("%s is left: %v", what, err)
		}
	}
	if content(m, machine.RecordFile) != "" {
		t.Error("the machine's copy of the record is left")
	}
}

// A provider ID of former days is no proof that the cloud knows the machine: the Node is initialized anew, and one that
// is skipped keeps the lifecycle off.
func TestCluster_Adopt_ProviderIDOfFormerDays(t *testing.T) {
	m, client := plain(t)
	list, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].Spec.ProviderID = "onprem://ber1/" + list.Items[i].Name
		if _, err := client.CoreV1().Nodes().Update(t.Context(), &list.Items[i], metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	d, _ := adoption(t, m, Options{}, Adoption{Yes: true, Skip: []string{"w1"}})
	plan, err := plannedNodes(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range plan {
		if n.initialized {
			t.Errorf("%s is taken for known", n.name)
		}
	}
	for _, external := range []bool{false, true} { // as it is, and from a run that did not come to its end
		if external {
			node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
			if err == nil {
				node.Annotations = map[string]string{v1alpha1.ProvidedNodeIPAnnotation: internalIPs(node)}
				_, err = client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		unknown, err := unresolved(t.Context(), d)
		if err != nil || !slices.Contains(unknown, "w1") {
			t.Errorf("external %v: not known are %v, %v", external, unknown, err)
		}
	}
}

// The way back is open from anywhere on the way there, and goes on where it was cut short itself.
func TestCluster_Leave_FromHalfWay(t *testing.T) {
	m, client := plain(t)
	manager := func() bool {
		_, err := client.AppsV1().DaemonSets("kube-system").Get(t.Context(), "onprem-cloud-controller-manager",
			metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	pass := func(d *Data, out *bytes.Buffer, list ...Phase) {
		t.Helper()
		for _, p := range list {
			if err := p.run(t.Context(), d); err != nil {
				t.Fatalf("%s: %v\n%s", p.Name, err, out)
			}
		}
	}
	for done := 2; done <= 5; done++ { // begin, cloud-config, rbac, addon
		d, out := adoption(t, m, Options{}, Adoption{Yes: true})
		pass(d, out, Adopt()[1:done]...)
		wait := Options{Flags: v1alpha1.CloudConfiguration{Wait: v1alpha1.WaitPolicy{
			Timeout: metav1.Duration{Duration: time.Second},
		}}}
		d, out = adoption(t, m, wait, Adoption{Leave: true, Yes: true})
		pass(d, out, leavePreflight(), off(rbac()), off(addon()), triedRollout())
		if got := manager(); got != (done == 5) {
			t.Errorf("behind %d phases: there is a manager: %v\n%s", done, got, out)
		}
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		applier, err := apply.NewCluster(cluster.Config, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range []apply.Set{apply.Addon, apply.NodeAgent, apply.RBAC} { // killed in the middle of the last phase
			if _, err := applier.Apply(t.Context(), set, nil); err != nil {
				t.Fatal(err)
			}
		}
		d, out = adoption(t, m, wait, Adoption{Leave: true, Yes: true})
		pass(d, out, leavePreflight(), off(rbac()), off(addon()), triedRollout())
		if manager() {
			t.Errorf("behind %d phases: the manager is back\n%s", done, out)
		}
		pass(d, out, forgetMachine(), removeObjects())
		if err := d.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A kubelet in external mode without --node-ip repeats no address. It is not passed over.
func TestCluster_Leave_KubeletWithoutNodeIP(t *testing.T) {
	m, client := plain(t)
	d, out := adoption(t, m, Options{}, Adoption{Yes: true})
	if err := held(begin()).run(t.Context(), d); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d, out = adoption(t, m, Options{}, Adoption{Leave: true, Via: ViaPods, Image: "x", NodeTimeout: NodeTimeout})
	a, err := newAdopter(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	n := &plannedNode{name: "w1", ip: "198.18.0.101"}
	ran := playPod(t, client, n, corev1.PodStatus{Phase: corev1.PodSucceeded})
	if err := a.leave(t.Context(), n); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	select {
	case args := <-ran:
		if args != "node plain --root=/host" {
			t.Errorf("it ran %q", args)
		}
	case <-time.After(time.Second):
		t.Errorf("nothing was done there\n%s", out)
	}
	n.ip = "198.18.0.102" // what ccmadm gave the kubelet
	playPod(t, client, n, corev1.PodStatus{Phase: corev1.PodSucceeded})
	wantError(t, asError(a.leave(t.Context(), n)), `has chosen the addresses "198.18.0.101"`, finding.ExitError)
	d.Adoption.Via = ViaHand
	out.Reset()
	if err := a.leave(t.Context(), n); err != nil || !strings.Contains(out.String(), "whether its kubelet has left is not known") {
		t.Errorf("by hand: %v\n%s", err, out)
	}
}

func TestCluster_Leave_LoadBalancers(t *testing.T) {
	m, client := plain(t)
	d, _ := adoption(t, m, Options{}, Adoption{Yes: true})
	if err := resolved(record()).run(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	made(t, client.CoreV1().Services("default"), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "lb", Finalizers: []string{balancerFinalizer}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	t.Cleanup(func() {
		patch := []byte(`{"metadata": {"finalizers": null}}`)
		_, err := client.CoreV1().Services("default").Patch(context.WithoutCancel(t.Context()), "lb",
			"application/merge-patch+json", patch, metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	d, _ = adoption(t, m, Options{}, Adoption{Leave: true, Yes: true})
	wantError(t, leavePreflight().run(t.Context(), d), "nobody would serve or remove any more: Service/default/lb",
		finding.ExitRefused)
	d, out := adoption(t, m, Options{}, Adoption{Leave: true, Yes: true, KeepLoadBalancers: true})
	if err := leavePreflight().run(t.Context(), d); err != nil ||
		!strings.Contains(out.String(), "served by nobody from then on: Service/default/lb") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCluster_Adopt_KubeadmConfig(t *testing.T) {
	m, client := plain(t)
	d, out := adoption(t, m, Options{}, Adoption{Yes: true})
	if err := cleanKubeadm().run(t.Context(), d); err != nil ||
		!strings.Contains(out.String(), "removed apiServer.extraArgs cloud-provider") {
		t.Fatalf("%v\n%s", err, out)
	}
	live, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), kubeadmConfigName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := live.Data[clusterConfigKey]; strings.Contains(got, "cloud-provider") ||
		!strings.Contains(got, "clusterName: ber1") {
		t.Errorf("it is now\n%s", got)
	}
	if _, err := kubeadm.Parse("", []byte(live.Data[clusterConfigKey])); err != nil {
		t.Error(err)
	}
	out.Reset()
	if err := cleanKubeadm().run(t.Context(), d); err != nil || !strings.Contains(out.String(), "unchanged") {
		t.Errorf("the second time: %v\n%s", err, out)
	}
}

// What admission forbids is said, and nothing is left behind.
func TestCluster_Adopt_PodsThatAdmissionForbids(t *testing.T) {
	m, client := plain(t)
	label := func(value string) {
		t.Helper()
		patch := []byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": ` + value + `}}}`)
		_, err := client.CoreV1().Namespaces().Patch(context.WithoutCancel(t.Context()), "kube-system",
			"application/merge-patch+json", patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	label(`"baseline"`)
	t.Cleanup(func() { label("null") })
	d, _ := adoption(t, m, Options{}, Adoption{Via: ViaPods, Image: "x", NodeTimeout: time.Second})
	n := &plannedNode{name: "w1", ip: "198.18.0.101"}
	wantError(t, newStepper(d, client).run(t.Context(), n, "plain"), "run a privileged pod on w1: the cluster's admission forbids it",
		finding.ExitRefused)
}

// What is misspelled is said before anything is done.
func TestCluster_Adopt_Misspelled(t *testing.T) {
	m, _ := plain(t)
	for want, a := range map[string]Adoption{
		`read --via: "pod" is none of hand, pods, ssh`: {Yes: true, Via: "pod"},
		"read --skip: there is no Node/w9":             {Yes: true, Skip: []string{"w1", "w9"}},
	} {
		d, _ := adoption(t, m, Options{}, a)
		wantError(t, adoptPreflight().run(t.Context(), d), want, finding.ExitUsage)
	}
}

// playPod ends the pod of a step as its kubelet would, and tells what it was to run.
func playPod(t *testing.T, client kubernetes.Interface, n *plannedNode, status corev1.PodStatus) <-chan string {
	ran := make(chan string, 1)
	go func() {
		defer close(ran)
		pods := client.CoreV1().Pods(v1alpha1.Namespace)
		for ; t.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
			pod, err := pods.Get(t.Context(), podOfStep(n), metav1.GetOptions{})
			if err != nil {
				continue
			}
			pod.Status = status
			if _, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err == nil {
				ran <- strings.Join(pod.Spec.Containers[0].Args, " ")
				return
			}
		}
	}()
	return ran
}

// A pod that has done its step has done it, whether or not its kubelet shows what it said. One that the kubelet does not
// run at all is named with the kubelet's reason.
func TestCluster_Adopt_PodsWithoutLog(t *testing.T) {
	m, client := plain(t)
	for _, tt := range []struct {
		status    corev1.PodStatus
		want, say string
	}{
		{status: corev1.PodStatus{Phase: corev1.PodSucceeded}, say: "w1: done, and what was said there cannot be shown"},
		{
			status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "Node didn't have enough resource"},
			want:   "it ended as Failed, OutOfpods Node didn't have enough resource",
		},
	} {
		t.Run(string(tt.status.Phase), func(t *testing.T) {
			d, out := adoption(t, m, Options{}, Adoption{Via: ViaPods, Image: "x", NodeTimeout: 5 * time.Minute})
			n := &plannedNode{name: "w1", ip: "198.18.0.101"}
			ran := playPod(t, client, n, tt.status)
			err := newStepper(d, client).run(t.Context(), n, "plain")
			if args := <-ran; args != "node plain --timeout=5m0s --root=/host" {
				t.Errorf("it ran %q", args)
			}
			if !strings.Contains(out.String(), tt.say) || tt.want == "" && err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if tt.want != "" {
				wantError(t, asError(err), tt.want, finding.ExitError)
			}
		})
	}
}

// A taint that the run has set goes where nobody initializes the Node; one that was there before stays.
func TestCluster_Adopt_NobodyInitializes(t *testing.T) {
	m, client := plain(t)
	for _, before := range []bool{false, true} {
		if err := taint(t.Context(), client, "w1", before); err != nil {
			t.Fatal(err)
		}
		short := Options{Output: "text", Flags: v1alpha1.CloudConfiguration{Wait: v1alpha1.WaitPolicy{
			Timeout: metav1.Duration{Duration: time.Second},
		}}}
		d, out := adoption(t, m, short, Adoption{Yes: true})
		a, err := newAdopter(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := plannedNodes(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, asError(a.initialize(t.Context(), plan[0])), "w1", finding.ExitNotInTime)
		node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if isTainted(node) != before {
			t.Errorf("tainted before: %v, and after: %v\n%s", before, isTainted(node), out)
		}
	}
}

func TestIsManager(t *testing.T) {
	for want, list := range map[bool][]corev1.Container{
		true: {
			{Image: "vendor/ccm:1", Args: []string{"--cloud-provider=aws"}},
			{Image: "vendor/x:1", Command: []string{"/bin/aws-cloud-controller-manager"}},
		},
		false: {
			{Image: "autoscaling/cluster-autoscaler:v1.36.0", Command: []string{"./cluster-autoscaler", "--cloud-provider=aws"}},
			{Image: "x", Command: []string{"kube-controller-manager", "--cloud-provider=aws"}},
			{Image: "x", Args: []string{"--cloud-provider=external"}},
		},
	} {
		for _, c := range list {
			if got := isManager(&corev1.PodSpec{Containers: []corev1.Container{c}}); got != want {
				t.Errorf("%s %v %v: %v", c.Image, c.Command, c.Args, got)
			}
		}
	}
}

func TestCluster_Taint(t *testing.T) {
	_, client := plain(t)
	for _, set := range []bool{true, true, false, false} {
		if err := taint(t.Context(), client, "w1", set); err != nil {
			t.Fatal(err)
		}
		node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if isTainted(node) != set {
			t.Errorf("taints are %v", node.Spec.Taints)
		}
		for _, x := range node.Spec.Taints {
			if x.Key == v1alpha1.UninitializedTaint && x.Effect != corev1.TaintEffectNoSchedule {
				t.Errorf("effect %s would touch pods that run", x.Effect)
			}
		}
	}
}
