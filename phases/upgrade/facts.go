package upgrade

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// kubeletConfigName is the ConfigMap with the kubelets' configuration.
const kubeletConfigName, kubeletConfigKey = "kubelet-config", "kubelet"

// LiveFacts gathers, from a control plane, what a plan to upgrade is made of. It writes nothing. Asked is the
// version that the user named, empty for the installed kubeadm's; image is the cloud-controller-manager's that is named
// for it.
func (u *Upgrade) LiveFacts(ctx context.Context, r *workflow.Run, asked string) (*planner.Facts, error) {
	rec, err := record.ExistingRecord(ctx, r)
	if err != nil {
		return nil, err
	}
	f := &planner.Facts{
		Asked: asked, Record: rec, Oldest: minors.Oldest(), Newest: minors.Newest(), Version: r.Version,
	}
	if f.Profile, err = settings.RecordedProfile(rec); err != nil {
		return nil, err
	}
	if f.Here, err = workflow.NodeName(r.Host); err != nil {
		return nil, err
	}
	v, err := r.KubeadmVersion(ctx)
	switch {
	case err == nil:
		f.Kubeadm = "v" + v.String()
	case asked == "":
		return nil, err // then there is no version to plan for
	}
	if f.Asked == "" {
		f.Asked = f.Kubeadm
	}
	target, err := planner.ParseTarget(f.Asked)
	if err != nil {
		return nil, err
	}
	f.Image = manager.NamedImage(rec, u.Image, target)
	if f.CutShort, err = cutShortHere(r.Env, target); err != nil {
		return nil, err
	}
	client, err := workflow.Connect(r.Env, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	proxy, err := liveConfiguration(ctx, client, f)
	if err != nil {
		return nil, err
	}
	if err := liveNodes(ctx, r.Machine, client, f); err != nil {
		return nil, err
	}
	if err := kubeletUses(ctx, r.Machine, client, f, target); err != nil {
		return nil, err
	}
	if v != nil && v.Minor() >= target.Minor() && v.Minor() <= target.Minor()+1 { // what it lists images for
		f.Images, err = kubeadmImages(ctx, r.Machine, "v"+target.String(), rec.ImageRepository)
	}
	if err != nil {
		return nil, err
	}
	if err := liveExternalIPs(ctx, client, f); err != nil {
		return nil, err
	}
	if err := liveTroubles(ctx, r.Machine, client, proxy, f); err != nil {
		return nil, err
	}
	return f, u.askOthers(ctx, r.Env, client, f, target)
}

// liveConfiguration reads what kubeadm has in the cluster, and what our record gives the cloud-controller-manager. It returns
// kube-proxy's DaemonSet; nil: there is none.
func liveConfiguration(ctx context.Context, client kubernetes.Interface, f *planner.Facts) (*appsv1.DaemonSet, error) {
	file, err := workflow.LiveKubeadm(ctx, client)
	if err != nil {
		return nil, err
	}
	where := "ConfigMap/" + v1alpha1.Namespace + "/" + workflow.KubeadmConfigName
	f.Cluster = file.KubernetesVersion()
	for _, a := range file.ToldComponents() {
		f.Uses = append(f.Uses, usesOf(planner.Use{
			Component: componentOf(a.Component), Name: a.Name, Value: a.Value, Where: where, Cleaned: true,
		})...)
	}
	for _, gate := range file.FeatureGates() {
		f.Uses = append(f.Uses, planner.Use{
			Component: planner.Kubeadm, Name: planner.GatePrefix + gate, Where: where, Cleaned: true,
		})
	}
	for _, arg := range f.Record.Configuration.ControllerManager.ExtraArgs {
		f.Uses = append(f.Uses, argument(arg, planner.Use{
			Component: planner.Manager, Where: "ConfigMap/" + v1alpha1.Namespace + "/" + v1alpha1.RecordName,
		})...)
	}
	kubelets, err := readConfigured(ctx, client, planner.Kubelet, kubeletConfigName, kubeletConfigKey)
	if err != nil {
		return nil, err
	}
	proxies, err := readConfigured(ctx, client, planner.Proxy, kubeProxyName, kubeProxyKey)
	if err != nil {
		return nil, err
	}
	f.Uses = append(append(f.Uses, kubelets.gates...), proxies.gates...)
	f.ProxyMode, f.EventsUnset = proxies.Mode, kubelets.EventRecordQPS != nil && *kubelets.EventRecordQPS == 0
	return liveProxy(ctx, client, f)
}

// argument is --name=value as uses.
func argument(arg string, at planner.Use) []planner.Use {
	name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	at.Name, at.Value = strings.ReplaceAll(name, "_", "-"), value
	return usesOf(at)
}

// usesOf takes --feature-gates apart.
func usesOf(u planner.Use) []planner.Use {
	if u.Name != planner.Gates {
		return []planner.Use{u}
	}
	var list []planner.Use
	for gate, value := range minors.Gates(u.Value) {
		one := u
		one.Name, one.Value = planner.GatePrefix+gate, value
		list = append(list, one)
	}
	return list
}

// liveNodes are the Nodes, and what runs on them of the control plane.
func liveNodes(ctx context.Context, m *machine.Machine, client kubernetes.Interface, f *planner.Facts) error {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	byName := map[string]*planner.Node{}
	for _, n := range list.Items {
		controlPlane := nodes.IsControlPlane(&n)
		f.Nodes = append(f.Nodes, planner.Node{
			Name: n.Name, ControlPlane: controlPlane, Kubelet: n.Status.NodeInfo.KubeletVersion,
			Schedulable: !n.Spec.Unschedulable, Refuses: refusesJob(n.Spec.Taints),
			Architecture: n.Status.NodeInfo.Architecture, Runtime: n.Status.NodeInfo.ContainerRuntimeVersion, Ccmadm: n.Annotations[v1alpha1.ReleaseAnnotation],
		})
	}
	for i := range f.Nodes {
		byName[f.Nodes[i].Name] = &f.Nodes[i]
	}
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: map[string]string{"tier": "control-plane"}})
	pods, err := client.CoreV1().Pods(v1alpha1.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("list the control plane's pods: %w", err)
	}
	for i := range pods.Items {
		if n := byName[pods.Items[i].Spec.NodeName]; n != nil {
			f.Uses = append(f.Uses, podUses(&pods.Items[i], n, f.Here)...)
		}
	}
	uses, err := manifestUses(m, f.Here)
	f.Uses = append(f.Uses, uses...)
	return err
}

// refusesJob is the taint that kubeadm's Job does not tolerate.
func refusesJob(taints []corev1.Taint) string {
	for _, t := range taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && t.Key != v1alpha1.ControlPlaneLabel {
			return t.Key
		}
	}
	return ""
}

// podUses notes a pod's version on its Node, and returns what its component is told. This machine's are read from its
// files.
func podUses(pod *corev1.Pod, n *planner.Node, here string) []planner.Use {
	component := planner.Component(pod.Labels[v1alpha1.ComponentLabel])
	c := templates.OwnContainer(&pod.Spec, string(component))
	if c == nil {
		return nil
	}
	if !n.ControlPlane && (component != planner.Manager || nodes.IsMirror(pod)) {
		return nil // a worker's kubelet may show any pod as its own; who is a control plane it may not say
	}
	switch component {
	case planner.APIServer:
		n.APIServer = settings.TagOf(c.Image)
	case planner.Manager:
		n.Manager = c.Image
		return nil
	case planner.ControllerManager, planner.Scheduler, planner.Etcd:
	default:
		return nil
	}
	if n.Name == here {
		return nil
	}
	return containerUses(*c, planner.Use{
		Component: component, Where: "Pod/" + pod.Namespace + "/" + pod.Name, Node: n.Name, Rewritten: true,
	})
}

// containerUses are the component's arguments. What is before its program are those of one that starts it.
func containerUses(c corev1.Container, at planner.Use) []planner.Use {
	var list []planner.Use
	args := slices.Concat(c.Command, c.Args)
	args = args[1+slices.IndexFunc(args, func(arg string) bool {
		return path.Base(arg) == string(at.Component) && !strings.HasPrefix(arg, "-")
	}):]
	for i, arg := range args {
		if arg == "--"+planner.Gates && i+1 < len(args) {
			arg += "=" + args[i+1]
		}
		if strings.HasPrefix(arg, "-") {
			list = append(list, argument(arg, at)...)
		}
	}
	return list
}
