package phases

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/phases/kubeadm"
)

const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

func kubeadmControlPlane() Phase {
	return Phase{
		Name:  "kubeadm-control-plane",
		Short: "Run kubeadm up to the answering API server",
		Long: `Runs "kubeadm init --config ` + KubeadmConfig + `" with the phases from preflight to wait-control-plane, and streams what it prints.
Where this machine's API server answers already, kubeadm is not run again; where an earlier run was cut short, kubeadm's
preflight is left out, since it would take its own files for another cluster's.`,
		Run: func(ctx context.Context, d *Data) error {
			if d.apiServerAnswers(ctx) {
				d.Sayf("unchanged: the API server of this machine answers")
				return nil
			}
			if d.DryRun { // kubeadm's own needs both halves in one process: it keeps what it would have written in memory
				return d.kubeadm(ctx, d.initHalf([]string{"show-join-command"})...)
			}
			skip := kubeadm.SecondHalf
			if leftByKubeadm() != "" {
				skip = append([]string{"preflight"}, skip...)
			}
			return d.kubeadm(ctx, d.initHalf(skip)...)
		},
	}
}

func kubeadmFinish() Phase {
	return Phase{
		Name:  "kubeadm-finish",
		Short: "Run the rest of kubeadm's phases",
		Long:  `Runs "kubeadm init --config ` + KubeadmConfig + `" with the phases from upload-config to addon. Where their results are all there, kubeadm is not run again.`,
		Run: func(ctx context.Context, d *Data) error {
			if d.kubeadmFinished(ctx) {
				d.Sayf("unchanged: kubeadm has finished here")
				return nil
			}
			args := d.initHalf(append(slices.Clone(kubeadm.FirstHalf), "show-join-command"))
			if d.DryRun {
				d.Sayf("would run kubeadm %s", strings.Join(kubeadm.MaskArgs(args), " "))
				return nil
			}
			return d.kubeadm(ctx, args...)
		},
	}
}

// leftByKubeadm names a file that kubeadm writes after its preflight has passed, and that this would stumble over.
// Our own preflight has made sure that it was ccmadm's kubeadm.
func leftByKubeadm() string {
	for _, name := range []string{"etcd.yaml", "kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml"} {
		path := filepath.Join(filepath.Dir(CCMManifest), name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// apiServerAnswers asks this machine's API server whether it is ready, as an administrator.
func (d *Data) apiServerAnswers(ctx context.Context) bool {
	if _, err := os.Stat(apiServerPod); err != nil {
		return false
	}
	client, err := d.client(bootstrapConf())
	if err != nil {
		return false
	}
	if _, err := client.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return false
	}
	name, err := d.nodeName()
	if err != nil {
		return false
	}
	_, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	return err == nil
}

// kubeadmFinished looks for what each phase of the second half leaves behind, but for those that are skipped.
func (d *Data) kubeadmFinished(ctx context.Context) bool {
	client, err := d.client(adminConf)
	if err != nil {
		return false
	}
	name, err := d.nodeName()
	if err != nil {
		return false
	}
	_, skipped := kubeadm.TakeFlag(d.KubeadmRest, "skip-phases")
	skipped = append(skipped, d.Kubeadm.SkipPhases()...)
	wanted := func(phases ...string) bool {
		return !slices.ContainsFunc(phases, func(p string) bool { return slices.Contains(skipped, p) })
	}
	missing := func(err error) bool { return err != nil }
	switch {
	case wanted("upload-config") && missing(getConfigMap(ctx, client, "kubeadm-config")),
		wanted("upload-config") && missing(getConfigMap(ctx, client, "kubelet-config")),
		wanted("mark-control-plane") && missing(controlPlaneMarked(ctx, client, name)),
		wanted("bootstrap-token") && missing(clusterInfoPublished(ctx, client)),
		wanted("addon", "addon/coredns") && missing(getCoreDNS(ctx, client)),
		wanted("addon", "addon/kube-proxy") && missing(getKubeProxy(ctx, client)):
		return false
	}
	return true
}

func getConfigMap(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
	return err
}

func controlPlaneMarked(ctx context.Context, client kubernetes.Interface, name string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if _, ok := node.Labels[controlPlaneLabel]; !ok {
		return errors.New("not marked")
	}
	return nil
}

func clusterInfoPublished(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, "cluster-info", metav1.GetOptions{})
	return err
}

func getCoreDNS(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
	return err
}

func getKubeProxy(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.AppsV1().DaemonSets(metav1.NamespaceSystem).Get(ctx, "kube-proxy", metav1.GetOptions{})
	return err
}
