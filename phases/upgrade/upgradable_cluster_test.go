package upgrade

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
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
	u := &upgradable{client: kubernetes.NewForConfigOrDie(phasestest.Cluster.Config), images: phasestest.AwsImages(t)}
	u.living(t, config.CloudConfiguration{
		Provider: "aws", Mode: config.ModeDaemonSet, ClusterName: "ber1",
		ControllerManager: config.ControllerManager{Image: u.images["1.35"]},
	})
	return u
}

// living makes the cluster, with a control plane and a worker.
func (u *upgradable) living(t *testing.T, said config.CloudConfiguration) {
	t.Helper()
	u.m = existingtest.LivingAs(t, said)
	u.runner = u.m.Runner.(*machinetest.Commands)
	kubeadmsObjects(t, u.client)
	u.node(t, "cp1", true)
	u.node(t, "w1", false)
	machinetest.Put(t, u.m, machine.APIServerPod, phasestest.APIServerPod("v1.35.4"))
	machinetest.Put(t, u.m, machine.KubeadmFlags, "KUBELET_KUBEADM_ARGS=\"--cloud-provider=external\"\n")
	u.runner.Answers["kubeadm config images list"] = "registry.k8s.io/kube-apiserver:v1.36.3\n"
}

// second goes on with cp2, which has the same files here, and a name of its own.
func (u *upgradable) second(t *testing.T) {
	t.Helper()
	m, _ := phasestest.ControlPlaneMachine(t, phasestest.Cluster.Config)
	machinetest.Put(t, m, machine.StateFile, strings.Replace(phasestest.StateAt(state.StageFinished), "cp1", "cp2", 1))
	machinetest.Put(t, m, machine.APIServerPod, phasestest.APIServerPod("v1.35.4"))
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

// kubeadm does to the machine and the cluster what kubeadm upgrade does, and notes what its configuration was.
func (u *upgradable) kubeadm(t *testing.T, node string) (found *string) {
	t.Helper()
	found = new("")
	u.runner.During = func(line string) {
		if !strings.HasPrefix(line, "kubeadm upgrade apply") && !strings.HasPrefix(line, "kubeadm upgrade node") {
			return
		}
		machinetest.Put(t, u.m, machine.APIServerPod, phasestest.APIServerPod("v1.36.3"))
		u.image(t, node, "v1.36.3")
		configMaps := u.client.CoreV1().ConfigMaps("kube-system")
		cm, err := configMaps.Get(t.Context(), workflow.KubeadmConfigName, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		*found = cm.Data[workflow.ClusterConfigKey]
		cm.Data[workflow.ClusterConfigKey] = strings.Replace(*found, "v1.35.4", "v1.36.3", 1)
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
			list, err := fleet.PodsOfSteps(t.Context(), u.client, fleet.PodForNode(imagePod, node)+"-")
			if err != nil || len(list) != 1 || len(list[0].Status.ContainerStatuses) > 0 {
				continue
			}
			pod := &list[0]
			state := corev1.ContainerState{Waiting: waiting}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "image", State: state}}
			_, _ = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		}
	}()
}

// do runs the phases but those that wait for pods and Services, which nobody runs here.
func (u *upgradable) do(t *testing.T, up Upgrade) (string, error) {
	t.Helper()
	r, out, list := u.begun(t, up)
	err := r.Do(t.Context(), list)
	return out.String(), err
}

func (u *upgradable) begun(t *testing.T, up Upgrade) (*workflow.Run, *bytes.Buffer, []workflow.Phase) {
	t.Helper()
	command := "upgrade node"
	if up.Version != "" {
		command = "upgrade apply " + up.Version
	}
	r, out := phasestest.Run{Inputs: workflow.Inputs{Existing: true, Command: command, Operation: &up}}.Must(t, u.m)
	r.Version = cmp.Or(u.version, r.Version)
	return r, out, upgradePhases()
}

func upgradePhases() []workflow.Phase {
	return slices.DeleteFunc(ControlPlane(), func(p workflow.Phase) bool {
		return p.Name == "rollout" || p.Name == "service"
	})
}

func (u *upgradable) managerImage(t *testing.T) string {
	t.Helper()
	return u.imageOf(t, "-"+v1alpha1.Component)
}

// imageOf is that of the DaemonSet whose name ends so.
func (u *upgradable) imageOf(t *testing.T, name string) string {
	t.Helper()
	sets, err := u.client.AppsV1().DaemonSets("kube-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(sets.Items, func(s appsv1.DaemonSet) bool {
		return strings.HasSuffix(s.Name, name)
	})
	if i < 0 {
		t.Fatalf("there is no DaemonSet *%s", name)
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
