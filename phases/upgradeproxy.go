package phases

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
)

// kubeProxyName is kube-proxy's DaemonSet, and the ConfigMap with its configuration.
const kubeProxyName, kubeProxyKey = "kube-proxy", "config.conf"

// liveProxy reads which kube-proxy there is. Without one, something else does its work.
func liveProxy(ctx context.Context, client kubernetes.Interface, f *planner.Facts) error {
	proxy, err := client.AppsV1().DaemonSets(v1alpha1.Namespace).Get(ctx, kubeProxyName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for kube-proxy: %w", err)
	}
	if containers := proxy.Spec.Template.Spec.Containers; len(containers) > 0 {
		f.Proxy = tagOf(containers[0].Image)
	}
	return nil
}
