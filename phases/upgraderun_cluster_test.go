package phases

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/machine"
	"github.com/ccmadm/ccmadm/phases/machine/machinetest"
)

// upgradable is a control plane of 1.35, whose configuration is poisoned, with the kubeadm of 1.36.3, and a manager of
// 1.35's release as a DaemonSet.
type upgradable struct {
	m      *machine.Machine
	runner *machinetest.Commands
	client kubernetes.Interface
	images map[string]string // by minor
	// version is ccmadm's; empty: that of all tests.
	version string
}

func newUpgradable(t *testing.T) *upgradable {
	t.Helper()
	u := &upgradable{client: kubernetes.NewForConfigOrDie(cluster.Config), images: awsImages(t)}
	u.living(t, v1alpha1.CloudConfiguration{
		Provider: "aws", Mode: v1alpha1.ModeDaemonSet, ClusterName: "ber1",
		ControllerManager: v1alpha1.ControllerManager{Image: u.images["1.35"]},
	})
	return u
}

// living makes the cluster, with a control plane and a worker.
func (u *upgradable) living(t *testing.T, said v1alpha1.CloudConfiguration) {
	t.Helper()
	u.m = livingAs(t, said)
	u.runner = u.m.Runner.(*machinetest.Commands)
	kubeadmsObjects(t, u.client)
	u.node(t, "cp1", true)
	u.node(t, "w1", false)
	machinetest.Put(t, u.m, machine.APIServerPod, apiServerPod("v1.35.4"))
	machinetest.Put(t, u.m, machine.KubeadmFlags, "KUBELET_KUBEADM_ARGS=\"--cloud-provider=external\"\n")
	u.runner.Answers["kubeadm config images list"] = "registry.k8s.io/kube-apiserver:v1.36.3\n"
}

// second goes on with cp2, which has the same files here, and a name of its own.
func (u *upgradable) second(t *testing.T) {
	t.Helper()
	m, _ := controlPlaneMachine(t, cluster.Config)
	machinetest.Put(t, m, machine.StateFile, strings.Replace(stateAt(v1alpha1.StageFinished), "cp1", "cp2", 1))
	machinetest.Put(t, m, machine.APIServerPod, apiServerPod("v1.35.4"))
	u.m, u.runner = m, m.Runner.(*machinetest.Commands)
	u.kubeadm(t, "cp2")
}

// node is one of 1.35 that is initialized, and ready for pods.
func (u *upgradable) node(t *testing.T, name string, controlPlane bool) {
	t.Helper()
	member(t, u.client, name, "v1.35.4", controlPlane)
	node, err := u.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Spec.Taints, node.Spec.ProviderID = nil, "aws:///eu-1/i-"+name
	if node, err = u.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0.11"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := u.client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func apiServerPod(version string) string {
	return "spec: {containers: [{name: a, image: 'registry.k8s.io/kube-apiserver:" + version + "'}]}\n"
}

// kubeadm does to the machine and the cluster what kubeadm upgrade does, and notes what its configuration was.
func (u *upgradable) kubeadm(t *testing.T, node string) (found *string) {
	t.Helper()
	found = new("")
	u.runner.During = func(line string) {
		if !strings.HasPrefix(line, "kubeadm upgrade apply") && !strings.HasPrefix(line, "kubeadm upgrade node") {
			return
		}
		machinetest.Put(t, u.m, machine.APIServerPod, apiServerPod("v1.36.3"))
		u.image(t, node, "v1.36.3")
		configMaps := u.client.CoreV1().ConfigMaps("kube-system")
		cm, err := configMaps.Get(t.Context(), kubeadmConfigName, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		*found = cm.Data[clusterConfigKey]
		cm.Data[clusterConfigKey] = strings.Replace(*found, "v1.35.4", "v1.36.3", 1)
		if _, err := configMaps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	}
	return found
}

// image gives the mirror of a Node's API server another version, as its kubelet does.
func (u *upgradable) image(t *testing.T, node, version string) {
	t.Helper()
	pods := u.client.CoreV1().Pods("kube-system")
	pod, err := pods.Get(t.Context(), "kube-apiserver-"+node, metav1.GetOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	pod.Spec.Containers[0].Image = "registry.k8s.io/kube-apiserver:" + version
	if _, err := pods.Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
}

// kubelet answers for the pods whose image is to be pulled on the control planes.
func (u *upgradable) kubelet(t *testing.T, waiting *corev1.ContainerStateWaiting) {
	t.Helper()
	for _, node := range []string{"cp1", "cp2"} {
		u.kubeletOf(t, node, waiting)
	}
}

func (u *upgradable) kubeletOf(t *testing.T, node string, waiting *corev1.ContainerStateWaiting) {
	t.Helper()
	go func() {
		pods := u.client.CoreV1().Pods("kube-system")
		for ; t.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
			pod, err := pods.Get(t.Context(), podForNode(imagePod, node), metav1.GetOptions{})
			if err != nil || len(pod.Status.ContainerStatuses) > 0 {
				continue
			}
			state := corev1.ContainerState{Waiting: waiting}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "image", State: state}}
			_, _ = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		}
	}()
}

// do runs the phases but those that wait for pods and Services, which nobody runs here.
func (u *upgradable) do(t *testing.T, up Upgrade) (string, error) {
	t.Helper()
	command := "upgrade node"
	if up.Version != "" {
		command = "upgrade apply " + up.Version
	}
	d, out := run{options: Options{Living: true, Command: command, Upgrade: &up}}.must(t, u.m)
	d.Version = cmp.Or(u.version, d.Version)
	var list []Phase
	for _, p := range UpgradeControlPlane() {
		if p.Name != "rollout" && p.Name != "service" {
			list = append(list, p)
		}
	}
	err := Run(t.Context(), d, list)
	return out.String(), err
}

func (u *upgradable) managerImage(t *testing.T) string {
	t.Helper()
	sets, err := u.client.AppsV1().DaemonSets("kube-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(sets.Items, func(s appsv1.DaemonSet) bool {
		return strings.HasSuffix(s.Name, "-"+v1alpha1.Component)
	})
	if i < 0 {
		t.Fatal("the manager has no DaemonSet")
	}
	return sets.Items[i].Spec.Template.Spec.Containers[0].Image
}

func (u *upgradable) ran() int {
	count := 0
	for _, line := range u.runner.Ran {
		if strings.HasPrefix(line, "kubeadm upgrade") {
			count++
		}
	}
	return count
}

func TestCluster_Upgrade_Apply(t *testing.T) {
	u := newUpgradable(t)
	u.kubelet(t, nil)
	found := u.kubeadm(t, "cp1")
	u.runner.During = func(during func(string)) func(string) {
		return func(line string) {
			during(line)
			if strings.HasPrefix(line, "kubeadm upgrade") { // takes the bare flag for the name of the next
				machinetest.Put(t, u.m, machine.KubeadmFlags, "KUBELET_KUBEADM_ARGS=\"--v=2\"\n")
			}
		}
	}(u.runner.During)
	out, err := u.do(t, Upgrade{Version: "v1.36.3", Rest: []string{"--etcd-upgrade=false"}})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(*found, "cloud_provider") || strings.Contains(*found, "TopologyAwareHints") ||
		strings.Contains(*found, "ControlPlaneKubeletLocalMode") || !strings.Contains(*found, "NoSuchThing=false") {
		t.Errorf("kubeadm was given\n%s", *found)
	}
	kubelets, err := u.client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), kubeletConfigName, metav1.GetOptions{})
	if err != nil || strings.Contains(kubelets.Data["kubelet"], "MemoryManager") {
		t.Errorf("kubelets are given %v, %v", kubelets.Data, err)
	}
	if want := "kubeadm upgrade apply v1.36.3 --yes --etcd-upgrade=false"; !slices.Contains(u.runner.Ran, want) {
		t.Errorf("it ran %q, not %q", u.runner.Ran, want)
	}
	if got := machinetest.Content(u.m, machine.KubeadmFlags); !strings.Contains(got, "--cloud-provider=external --v=2") &&
		!strings.Contains(got, "--v=2 --cloud-provider=external") {
		t.Errorf("the kubelet's flags are %s", got)
	}
	if got := u.managerImage(t); got != u.images["1.36"] || got == u.images["1.35"] {
		t.Errorf("the manager is %s, want %s", got, u.images["1.36"])
	}
	rec, err := readRecord(t.Context(), u.client)
	if err != nil || rec.KubernetesVersion != "v1.36.3" || rec.Configuration.ControllerManager.Image != u.images["1.36"] {
		t.Errorf("the record says %+v, %v", rec, err)
	}
	runs, text := journalOf(t)
	var names []string
	for _, s := range runs[0].Steps {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "configuration configuration kubeadm kubelet-flags addon record" ||
		runs[0].State != journal.Done || !strings.Contains(text, "name: cloud_provider, value: external") {
		t.Errorf("steps %s\n%s", got, text)
	}
	ran := u.ran()
	if out, err := u.do(t, Upgrade{Version: "v1.36.3"}); err != nil || u.ran() != ran {
		t.Errorf("once more: %v, kubeadm ran %d times\n%s", err, u.ran()-ran, out)
	}
	if again, _ := journalOf(t); len(again) != 1 {
		t.Errorf("%d runs after one that changes nothing", len(again))
	}
	back, _, err := FormerSettings(&runs[0])
	if err != nil {
		t.Fatal(err)
	}
	out, _, err = applyRun(t, u.m, "", Options{Command: "rollback 1", Flags: *back})
	if err != nil || u.managerImage(t) != u.images["1.35"] {
		t.Errorf("rolled back to %s: %v\n%s", u.managerImage(t), err, out)
	}
}

// Behind a load balancer any API server may be asked: the last control plane brings the manager along.
func TestCluster_Upgrade_TheManagerWaitsForTheOldestAPIServer(t *testing.T) {
	u := newUpgradable(t)
	u.node(t, "cp2", true)
	u.kubelet(t, nil)
	u.kubeadm(t, "cp1")
	out, err := u.do(t, Upgrade{Version: "v1.36.3"})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := u.managerImage(t); got != u.images["1.35"] || !strings.Contains(out, "the API servers of cp2 come first") {
		t.Errorf("the manager is %s\n%s", got, out)
	}
	rec, err := readRecord(t.Context(), u.client)
	if err != nil || rec.KubernetesVersion != "v1.36.3" || rec.Configuration.ControllerManager.Image != u.images["1.35"] {
		t.Errorf("the record says %+v, %v", rec, err)
	}
	if out, err := u.do(t, Upgrade{}); err != nil || u.managerImage(t) != u.images["1.35"] {
		t.Errorf("once more: %v\n%s", err, out)
	}
	u.second(t)
	if out, err := u.do(t, Upgrade{}); err != nil || u.managerImage(t) != u.images["1.36"] {
		t.Errorf("the last one: the manager is %s, %v\n%s", u.managerImage(t), err, out)
	}
}

func TestCluster_Upgrade_Refused(t *testing.T) {
	u := newUpgradable(t)
	u.kubelet(t, &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such thing"})
	for _, tt := range []struct {
		name, version, want string
		given               func()
	}{
		{name: "an older version", version: "v1.34.4", want: "v1.34.4 is older than v1.35.4"},
		{name: "two minors up", version: "v1.37.0", want: "v1.37.0 is more than one minor version newer"},
		{name: "a pre-release", version: "v1.36.0-rc.1", want: "v1.36.0-rc.1 is a pre-release"},
		{name: "kubeadm of another version", version: "v1.36.2", want: "the installed kubeadm is of v1.36.3, not v1.36.2"},
		{
			name: "kubeadm of the former version", version: "v1.36.3", want: "the installed kubeadm is of v1.35.4, not v1.36.3",
			given: func() { u.runner.Answers["kubeadm version"] = "v1.35.4\n" },
		},
		{name: "a machine that is not the first", want: "`ccmadm upgrade apply v1.36.3` on one control plane comes first"},
		{name: "an image that does not exist", version: "v1.36.3", want: "ImagePullBackOff: no such thing"},
		{
			name: "a kubelet that would not come back", version: "v1.36.3", want: "kubelet has --cloud-config=/x",
			given: func() { machinetest.Put(t, u.m, "/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--cloud-config=/x\n") },
		},
		{
			name: "no room for a copy of etcd", version: "v1.36.3", want: "kubeadm keeps a copy of etcd's data there",
			given: func() {
				machinetest.Put(t, u.m, "/var/lib/etcd/member/snap/db", "")
				if err := os.Truncate(u.m.Path("/var/lib/etcd/member/snap/db"), 1<<42); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "upgraded by hand, half", version: "v1.36.3", want: "an upgrade was begun by hand there",
			given: func() { u.image(t, "cp1", "v1.36.3") },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kubeadm, files := u.runner.Answers["kubeadm version"], snapshot(t, u.m)
			if tt.given != nil {
				tt.given()
			}
			before := u.configuration(t)
			out, err := u.do(t, Upgrade{Version: tt.version})
			var known *finding.Error
			if !errors.As(err, &known) || known.Code != finding.ExitPreflight ||
				!strings.Contains(known.Error()+known.Hint, tt.want) {
				t.Errorf("got %v, %+v, want %q\n%s", err, known, tt.want, out)
			}
			for _, path := range []string{"/etc/default/kubelet", "/var/lib/etcd/member/snap/db"} {
				_ = os.Remove(u.m.Path(path))
			}
			if u.ran() > 0 || u.configuration(t) != before || !maps.Equal(snapshot(t, u.m), files) {
				t.Error("something was changed")
			}
			if runs, _ := journalOf(t); len(runs) > 0 {
				t.Error("it is in the journal")
			}
			u.runner.Answers["kubeadm version"] = kubeadm
			u.image(t, "cp1", "v1.35.4")
		})
	}
}

func (u *upgradable) configuration(t *testing.T) string {
	t.Helper()
	cm, err := u.client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), kubeadmConfigName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm.ResourceVersion
}

// The same command goes on: also where kubeadm has begun, and the cluster looks half upgraded.
func TestCluster_Upgrade_GoesOn(t *testing.T) {
	u := newUpgradable(t)
	u.kubelet(t, nil)
	u.kubeadm(t, "cp1")
	whole := u.runner.During
	u.runner.During = func(line string) {
		if strings.HasPrefix(line, "kubeadm upgrade") {
			u.image(t, "cp1", "v1.36.3")
		}
	}
	u.runner.Fails["kubeadm upgrade apply"] = errors.New("signal: terminated")
	apply := Upgrade{Version: "v1.36.3"}
	if out, err := u.do(t, apply); err == nil || u.ran() != 1 || u.managerImage(t) != u.images["1.35"] {
		t.Fatalf("kubeadm was terminated: %v\n%s", err, out)
	}
	delete(u.runner.Fails, "kubeadm upgrade apply")
	if out, err := u.do(t, apply); err == nil || !strings.Contains(err.Error(), "kubeadm has ended well, and") {
		t.Fatalf("kubeadm has changed nothing: %v\n%s", err, out)
	}
	u.runner.During = whole
	if out, err := u.do(t, apply); err != nil || u.managerImage(t) != u.images["1.36"] || u.ran() != 3 {
		t.Errorf("%v, kubeadm ran %d times\n%s", err, u.ran(), out)
	}
	runs, text := journalOf(t)
	if len(runs) != 3 || runs[1].State != journal.Failed || runs[2].State != journal.Done {
		t.Errorf("the journal says\n%s", text)
	}
}

func TestCluster_Upgrade_TwoAtATime(t *testing.T) {
	u := newUpgradable(t)
	u.kubelet(t, nil)
	u.kubeadm(t, "cp1")
	other, err := journal.Open(t.Context(), u.client, journal.Run{Command: "upgrade node", Machine: "cp2"})
	if err != nil {
		t.Fatal(err)
	}
	before := u.configuration(t)
	_, err = u.do(t, Upgrade{Version: "v1.36.3"})
	wantError(t, err, "another run is under way: ccmadm upgrade node on cp2", finding.ExitRefused)
	if u.ran() > 0 || u.configuration(t) != before {
		t.Error("something was changed")
	}
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Two that begin at the same time have the image pulled each on its own machine: neither takes the other's pod away.
func TestCluster_Upgrade_PullsBesideAnother(t *testing.T) {
	u := newUpgradable(t)
	pods := u.client.CoreV1().Pods("kube-system")
	other, err := pods.Create(t.Context(), podOfImage(u.images["1.36"], "cp2"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		if err := pods.Delete(context.WithoutCancel(t.Context()), other.Name, now); err != nil {
			t.Error(err)
		}
	})
	u.kubeletOf(t, "cp1", nil)
	u.kubeadm(t, "cp1")
	if out, err := u.do(t, Upgrade{Version: "v1.36.3"}); err != nil || u.managerImage(t) != u.images["1.36"] {
		t.Errorf("%v\n%s", err, out)
	}
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !strings.HasPrefix(p.Name, imagePod) })
	if len(left) != 1 || left[0].UID != other.UID {
		t.Errorf("left are %v", left)
	}
}
