package phases

import (
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
)

// livingClient is the administrator's, on a control plane.
func livingClient(d *Data) (*kubernetes.Clientset, error) {
	if err := refuseWithoutCluster(d); err != nil {
		return nil, err
	}
	return connect(d, machine.AdminConf)
}

// livingFiles are the provider's files that are in use, with those over them that this run names. The environment of
// whoever runs it says nothing: it may be for another cluster.
func livingFiles(ctx context.Context, d *Data, s *Settings) (map[string][]byte, error) {
	if d.Said.Credentials != nil && len(d.Said.Credentials) == 0 {
		return nil, finding.Usagef("credentials: an empty list would take all away").
			WithHint("leave it out: what is not named stays")
	}
	files, err := filesInUse(ctx, d, s)
	if err != nil {
		return nil, err
	}
	named, err := namedFiles(d, s)
	if err != nil {
		return nil, err
	}
	if files == nil && len(named) == 0 {
		if err := refuseLostFiles(ctx, d); err != nil {
			return nil, err
		}
		if err := s.Profile.CheckConfig(nil, ""); err != nil {
			return nil, finding.Refusedf("find the provider's files: %w", err).WithHint("nothing was changed")
		}
	}
	all := map[string][]byte{}
	maps.Copy(all, files)
	maps.Copy(all, named)
	return all, nil
}

// filesInUse are those of the Secret, or those that this machine has: in the static pod's folder, or where its own record
// says that they were read.
func filesInUse(ctx context.Context, d *Data, s *Settings) (map[string][]byte, error) {
	files, err := keptFiles(ctx, d, s)
	if err != nil || files != nil {
		return files, err
	}
	rec, err := d.Machine.Record()
	if err != nil || rec == nil || rec.Configuration.Provider != s.Provider ||
		rec.Configuration.CloudConfig.File == "" && len(rec.Configuration.Credentials) == 0 {
		return nil, err
	}
	files, err = readNamed(&rec.Configuration, s.Profile, d.Env)
	if err != nil {
		return nil, finding.Refusedf("restore Secret/kube-system/%s: %w", v1alpha1.CloudConfigName, err).
			WithHint("ccmadm apply -f FILE with cloudConfig and credentials makes it anew; nothing was changed")
	}
	return files, nil
}

// refuseLostFiles finds a Secret that was there and is not: without it the manager would run on, with nothing to go by.
func refuseLostFiles(ctx context.Context, d *Data) error {
	client, err := connect(d, machine.AdminConf)
	if err != nil {
		return err
	}
	applied, err := client.CoreV1().ConfigMaps(v1alpha1.Namespace).Get(ctx, v1alpha1.AppliedName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return finding.Refusedf("look for the provider's files: %w", err).WithHint("nothing was changed")
	}
	if _, listed := applied.Data[v1alpha1.Namespace+"_"+v1alpha1.CloudConfigName+"__Secret"]; !listed {
		return nil
	}
	_, err = client.CoreV1().Secrets(v1alpha1.Namespace).Get(ctx, v1alpha1.CloudConfigName, metav1.GetOptions{})
	if err == nil { // it has the files of the provider of before
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return finding.Refusedf("look for the provider's files: %w", err).WithHint("nothing was changed")
	}
	return finding.Refusedf("find the provider's files: Secret/%s/%s is gone, and this machine has no copy",
		v1alpha1.Namespace, v1alpha1.CloudConfigName).
		WithHint("ccmadm apply -f FILE with cloudConfig and credentials makes it anew; nothing was changed")
}

// livingPod is what the manager that runs was made from; nil: none is there. A change of mode that was cut short has
// left one of another mode than the record says.
func livingPod(ctx context.Context, d *Data, s *Settings) (*corev1.PodTemplateSpec, error) {
	client, err := connect(d, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	for _, mode := range append([]v1alpha1.Mode{s.Recorded.Configuration.Mode}, managedModes()...) {
		pod, err := podOfMode(ctx, d, client, mode, manifests.WorkloadName(s.Profile))
		if err != nil || pod != nil {
			return pod, err
		}
	}
	return nil, nil
}

func podOfMode(
	ctx context.Context, d *Data, client kubernetes.Interface, mode v1alpha1.Mode, name string,
) (*corev1.PodTemplateSpec, error) {
	if mode == v1alpha1.ModeStaticPod {
		pod, err := readStaticPod(d.Machine, machine.CCMManifest)
		if err != nil || pod == nil {
			return nil, err
		}
		return &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}, nil
	}
	live, err := getWorkload(ctx, client, mode, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, finding.Refusedf("look at the cloud-controller-manager: %w", err).WithHint("nothing was changed")
	}
	if daemonSet, is := live.(*appsv1.DaemonSet); is {
		return &daemonSet.Spec.Template, nil
	}
	return &live.(*appsv1.Deployment).Spec.Template, nil
}

// getWorkload asks for the manager's DaemonSet or Deployment, whichever the mode names.
func getWorkload(ctx context.Context, client kubernetes.Interface, mode v1alpha1.Mode, name string) (runtime.Object, error) {
	if mode == v1alpha1.ModeDaemonSet {
		return client.AppsV1().DaemonSets(v1alpha1.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
	return client.AppsV1().Deployments(v1alpha1.Namespace).Get(ctx, name, metav1.GetOptions{})
}

// liveVersion is the cluster's by kubeadm's live configuration, which an upgrade changes; empty where there is none.
func liveVersion(ctx context.Context, d *Data) (string, error) {
	client, err := connect(d, machine.AdminConf)
	if err != nil {
		return "", err
	}
	file, err := liveKubeadm(ctx, client)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", finding.Refusedf("ask for the version of the cluster: %w", err).WithHint("nothing was changed")
	}
	return file.KubernetesVersion(), nil
}

// kubeadmConfigName is the ConfigMap in which kubeadm keeps its live configuration, and clusterConfigKey the key.
const (
	kubeadmConfigName = "kubeadm-config"
	clusterConfigKey  = "ClusterConfiguration"
)

// liveKubeadm is the configuration that kubeadm keeps in the cluster.
func liveKubeadm(ctx context.Context, client kubernetes.Interface) (*kubeadm.File, error) {
	cm, err := client.CoreV1().ConfigMaps(v1alpha1.Namespace).Get(ctx, kubeadmConfigName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read kubeadm's live configuration: %w", err)
	}
	return kubeadm.Parse("ConfigMap/"+v1alpha1.Namespace+"/"+kubeadmConfigName, []byte(cm.Data[clusterConfigKey]))
}

// nodeOfKubelet is the Node of this machine by its kubelet's certificate, empty where it cannot be read.
func nodeOfKubelet(m *machine.Machine) string {
	name, _ := identity.NodeOfKubelet(m)
	return name
}
