package upgrade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// kubeProxyName is kube-proxy's DaemonSet, and the ConfigMap with its configuration.
const kubeProxyName, kubeProxyKey = "kube-proxy", "config.conf"

// liveProxy reads which kube-proxy there is; nil: something else does its work.
func liveProxy(ctx context.Context, client kubernetes.Interface, f *planner.Facts) (*appsv1.DaemonSet, error) {
	proxy, err := client.AppsV1().DaemonSets(v1alpha1.Namespace).Get(ctx, kubeProxyName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for kube-proxy: %w", err)
	}
	if c := templates.OwnContainer(&proxy.Spec.Template.Spec, kubeProxyName); c != nil {
		f.Proxy = settings.TagOf(c.Image)
	}
	return proxy, nil
}

// kubeletsTimeout is how long all kubelets together may take to answer.
const kubeletsTimeout = 30 * time.Second

// manifestUses is what this machine's static pods are told. They may differ from those that run.
func manifestUses(m *machine.Machine, here string) ([]planner.Use, error) {
	var list []planner.Use
	for _, c := range []planner.Component{planner.APIServer, planner.ControllerManager, planner.Scheduler, planner.Etcd} {
		path := filepath.Join(machine.ManifestDir, string(c)+".yaml")
		pod, err := record.ReadStaticPod(m, path)
		if err != nil {
			return nil, err
		}
		if pod == nil || len(pod.Spec.Containers) == 0 {
			continue
		}
		list = append(list, containerUses(*templates.OwnContainer(&pod.Spec, string(c)), planner.Use{Component: c, Where: path, Node: here, Rewritten: true})...)
	}
	return list, nil
}

// configured is what a plan needs of a component's configuration that kubeadm keeps in a ConfigMap.
type configured struct {
	FeatureGates   map[string]bool `json:"featureGates"`
	Mode           string          `json:"mode"`
	EventRecordQPS *int            `json:"eventRecordQPS"`
	gates          []planner.Use
}

// readConfigured is empty where there is no such ConfigMap.
func readConfigured(
	ctx context.Context, client kubernetes.Interface, component planner.Component, name, key string,
) (configured, error) {
	var c configured
	cm, err := client.CoreV1().ConfigMaps(v1alpha1.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return c, nil
	}
	where := "ConfigMap/" + v1alpha1.Namespace + "/" + name
	if err != nil {
		return c, fmt.Errorf("read %s: %w", where, err)
	}
	if err := yaml.Unmarshal([]byte(cm.Data[key]), &c); err != nil {
		return c, fmt.Errorf("read %s: %w", where, err)
	}
	for gate, on := range c.FeatureGates {
		c.gates = append(c.gates, planner.Use{
			Component: component, Name: planner.GatePrefix + gate, Value: strconv.FormatBool(on), Where: where, Cleaned: true,
		})
	}
	return c, nil
}

// liveExternalIPs lists the Services that have some.
func liveExternalIPs(ctx context.Context, client kubernetes.Interface, f *planner.Facts) error {
	list, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	for _, s := range list.Items {
		if len(s.Spec.ExternalIPs) > 0 {
			f.ExternalIPs = append(f.ExternalIPs, s.Namespace+"/"+s.Name)
		}
	}
	return nil
}

// kubeletUses is what kubelets are told: this machine's by the files behind its command line, all by what they say of
// themselves. A kubelet tells its arguments from 1.36 on.
func kubeletUses(
	ctx context.Context, m *machine.Machine, client kubernetes.Interface, f *planner.Facts, target *version.Version,
) error {
	found, err := m.KubeletFlags(planner.KubeletFlags(target)...)
	if err != nil {
		return err
	}
	for _, u := range found {
		path := strings.TrimPrefix(u.File, strings.TrimSuffix(m.Root, "/"))
		f.Uses = append(f.Uses, usesOf(planner.Use{
			Component: planner.Kubelet, Name: u.Flag, Value: u.Value, Node: f.Here,
			Where: fmt.Sprintf("%s:%d", path, u.Line), Cleaned: cleanedByUs(m, u),
		})...)
	}
	ctx, cancel := context.WithTimeout(ctx, kubeletsTimeout)
	defer cancel()
	names, versions := make([]string, len(f.Nodes)), map[string]string{}
	for i, n := range f.Nodes {
		names[i], versions[n.Name] = n.Name, n.Kubelet
	}
	told := nodes.AskEach(ctx, names, func(ctx context.Context, node string) toldByKubelet {
		return askKubelet(ctx, client, node, versions[node], target)
	})
	for i, name := range names {
		f.Uses = append(f.Uses, told[i].uses...)
		if told[i].gatesUnseen || told[i].flagsUnseen && name != f.Here {
			f.Unseen = append(f.Unseen, name)
		}
	}
	return nil
}

// toldByKubelet is what a kubelet says that it is told.
type toldByKubelet struct {
	uses []planner.Use
	// flagsUnseen and gatesUnseen say that it told nothing of its arguments, and of its feature gates.
	flagsUnseen, gatesUnseen bool
}

// askKubelet asks for what else would be known of no other machine's kubelet.
func askKubelet(
	ctx context.Context, client kubernetes.Interface, node, kubeletVersion string, target *version.Version,
) toldByKubelet {
	var told []planner.Use
	flags := nodes.KubeletFlags(ctx, client, node)
	for _, name := range planner.KubeletFlags(target) {
		if value, there := flags[name]; there && value != "" && value != defaultOf(name, kubeletVersion) {
			told = append(told, usesOf(planner.Use{
				Component: planner.Kubelet, Name: name, Value: finding.Clean(value), Node: node, Where: "the kubelet's arguments",
				Told: true,
			})...)
		}
	}
	gates, err := nodes.KubeletGates(ctx, client, node)
	for gate, on := range gates {
		u := planner.Use{
			Component: planner.Kubelet, Name: planner.GatePrefix + finding.Clean(gate), Value: strconv.FormatBool(on), Node: node,
			Told: true, Where: planner.KubeletConfiguration,
		}
		if !slices.ContainsFunc(told, func(t planner.Use) bool { return t.Name == u.Name }) {
			told = append(told, u)
		}
	}
	return toldByKubelet{uses: told, flagsUnseen: flags == nil, gatesUnseen: err != nil}
}

// defaultOf is a kubelet's flag where it was not set: a kubelet tells those, too.
func defaultOf(flag, kubeletVersion string) string {
	minor, err := minors.Of(kubeletVersion)
	if err != nil {
		return ""
	}
	m, _ := minors.Load().Of(minor)
	return m.Flags[string(planner.Kubelet)][flag].Default
}

// kubeadmImages are those of the control plane.
func kubeadmImages(ctx context.Context, m *machine.Machine, version, mirror string) ([]string, error) {
	args := []string{"config", "images", "list", "--kubernetes-version=" + version}
	if mirror != "" {
		args = append(args, "--image-repository="+mirror)
	}
	out, err := m.Output(ctx, "kubeadm", args...)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(out)), nil
}

// KubeadmUpgradePlan runs the installed kubeadm's own plan, with further arguments of the user's. It makes a Job in the
// cluster to see whether pods run. In JSON, what it prints is returned; in text it is streamed. A plan that fails is a
// finding: the upgrade begins with the same checks.
func KubeadmUpgradePlan(
	ctx context.Context,
	env *workflow.Env,
	version string,
	rest []string,
	asJSON bool,
) ([]byte, *finding.Finding, error) {
	args := append([]string{"upgrade", "plan", version}, rest...)
	var out, stderr bytes.Buffer
	c := machine.Command{Name: "kubeadm", Args: args, Out: env.Out, Err: env.Err}
	if asJSON {
		c.Args, c.Out, c.Err = append(args, "--output=json"), &out, &stderr
	} else {
		fmt.Fprintf(env.Out, "[upgrade] running kubeadm %s\n", strings.Join(kubeadm.MaskArgs(args), " "))
	}
	err := env.Machine.Runner.Run(ctx, c)
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		words := lastWords(stderr.Bytes())
		f := finding.KubeadmPlan.New("", fmt.Sprintf("kubeadm upgrade plan %s: %v; %s", version, err, words))
		if !asJSON {
			f.Message = fmt.Sprintf("kubeadm upgrade plan %s: %v; its output is above", version, err)
		}
		return nil, &f, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("run kubeadm upgrade plan: %w", err)
	}
	return out.Bytes(), nil, nil
}

// lastWords are the lines in which kubeadm says what is wrong.
func lastWords(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return nodes.Shorten(strings.Join(lines[max(0, len(lines)-4):], " "))
}
