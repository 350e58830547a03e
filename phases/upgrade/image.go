package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// renewIdentity renews the static pod's certificate where kubeadm has renewed its own since: an upgrade does. The phase
// that writes the static pod stamps it, so that the pod is started once.
func renewIdentity() workflow.Phase {
	return workflow.Phase{
		Name:  "certificate",
		Short: "Renew the certificate of the cloud-controller-manager, as kubeadm has renewed its own",
		Long: `Reads the cluster's CA. Writes ` + machine.CCMKubeconfig + ` where it is older than
` + machine.ControllerManagerConf + `, which kubeadm upgrade rewrites, and ` + machine.CertsTimer + `.`,
		Only: []config.Mode{config.ModeStaticPod},
		Plan: func(context.Context, *workflow.Run) (string, error) {
			return "would renew " + machine.CCMKubeconfig + ", where kubeadm has renewed its own", nil
		},
		Run: func(ctx context.Context, r *workflow.Run) error {
			s, err := r.Settings(ctx)
			if err != nil {
				return err
			}
			lags, err := identityLags(ctx, r)
			if err != nil {
				return err
			}
			if !lags {
				return manager.RunKubeconfig(ctx, r)
			}
			data, err := identity.Sign(r.Machine.Path(s.CertificatesDir), workflow.LocalServer(r.Host), r.Machine.Now())
			if err != nil {
				return err
			}
			if err := r.Write(machine.File{Path: machine.CCMKubeconfig, Data: data, Mode: 0o600, Opaque: true}); err != nil {
				return err
			}
			if upgradeOf(r).manager == "" { // then no phase of this run writes the static pod
				if err := manager.RestampStaticPod(r.Env); err != nil {
					return err
				}
			}
			return manager.InstallCertsTimer(ctx, r.Env, s.CertificatesDir)
		},
	}
}

// identityLags tells whether the static pod's certificate is older than kubeadm's. One that somebody else has signed is
// not ours to renew.
func identityLags(ctx context.Context, r *workflow.Run) (bool, error) {
	s, err := r.Settings(ctx)
	if err != nil || s.Mode != config.ModeStaticPod {
		return false, err
	}
	external, err := identity.ExternalCA(r.Machine, s.CertificatesDir)
	if err != nil || external {
		return false, err
	}
	ours, err := os.Stat(r.Machine.Path(machine.CCMKubeconfig))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at the static pod's identity: %w", err)
	}
	if cert, err := identity.ClientCertificate(r.Machine, machine.CCMKubeconfig); err == nil && cert == nil {
		return false, nil // a token, or files of the administrator's
	}
	kubeadms, err := os.Stat(r.Machine.Path(machine.ControllerManagerConf))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at kubeadm's certificates: %w", err)
	}
	return ours.ModTime().Before(kubeadms.ModTime()), nil
}

// imagePod begins the names of pods that have an image pulled, which are no upgrade at work. It is not yet known whether
// this is the only upgrade.
const (
	imagePod     = "ccmadm-image-"
	pullPatience = 5 * time.Minute
)

// checkManagerImage has this Node's kubelet pull the manager's image for the version: with its credentials and mirrors,
// and before the present manager is touched. The pod runs nothing that matters, and has no token.
func checkManagerImage(ctx context.Context, h *workflow.Host, image string) (err error) {
	client, err := workflow.Connect(h.Env, machine.AdminConf)
	if err != nil {
		return err
	}
	node, err := workflow.NodeName(h)
	if err != nil {
		return err
	}
	if err := removeImagePods(ctx, client, node); err != nil {
		return err
	}
	pods := client.CoreV1().Pods(v1alpha1.Namespace)
	h.Sayf("having %s pulled by the kubelet", image)
	options := metav1.CreateOptions{FieldManager: v1alpha1.FieldManager}
	created, err := pods.Create(ctx, podOfImage(image, node), options)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) { // an admission that nothing is to be blamed for
		h.Sayf("warning, whether %s can be pulled is not known: %v", image, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("have %s pulled: %w", image, err)
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, removeNow(last, client, created.Name))
	}()
	last := errors.New("the kubelet has not begun")
	waiting := h.Waiting("image "+image, pullPatience)
	const often = 500 * time.Millisecond
	err = wait.PollUntilContextTimeout(ctx, often, pullPatience, true, func(ctx context.Context) (bool, error) {
		pod, failed := pods.Get(ctx, created.Name, metav1.GetOptions{})
		if failed != nil {
			last = failed
			return false, nil //nolint:nilerr // it is asked again
		}
		there, why := pulled(pod)
		if last = why; !there {
			waiting.Still(why)
		}
		return there, refusal(why)
	})
	if err != nil {
		return finding.Preflightf("have %s pulled on Node/%s: %w", image, node, last).
			WithHint("--image names another one; docs/tasks/upgrade.md says where the image of a version comes from")
	}
	return nil
}

// removeImagePods removes those of a run that was cut short.
func removeImagePods(ctx context.Context, client kubernetes.Interface, node string) error {
	left, err := fleet.PodsOfSteps(ctx, client, fleet.PodForNode(imagePod, node))
	if err != nil {
		return err
	}
	for i := range left {
		if err := removeNow(ctx, client, left[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func removeNow(ctx context.Context, client kubernetes.Interface, name string) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
	if err := client.CoreV1().Pods(v1alpha1.Namespace).Delete(ctx, name, now); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Pod/%s/%s: %w", v1alpha1.Namespace, name, err)
	}
	return nil
}

// refusal ends the wait where the kubelet has said that the image cannot be had.
func refusal(why error) error {
	if errors.Is(why, nodes.ErrImage) {
		return why
	}
	return nil
}

// pulled tells whether the image is there, and if not, why.
func pulled(pod *corev1.Pod) (bool, error) {
	for _, c := range pod.Status.ContainerStatuses {
		w := c.State.Waiting
		switch {
		case w == nil: // it runs, or has ended
			return true, nil
		case w.Reason == "ContainerCreating", w.Reason == "PodInitializing", w.Reason == "ErrImagePull":
			return false, fmt.Errorf("%s %s", w.Reason, finding.Clean(w.Message))
		case w.Reason == "ImagePullBackOff", w.Reason == "ErrImageNeverPull", w.Reason == "InvalidImageName":
			return false, nodes.NotStarting(pod)
		case nodes.BehindPull(w.Reason):
			return true, nil
		default: // RegistryUnavailable, SignatureValidationFailed, ImageInspectError, and what newer kubelets say
			return false, fmt.Errorf("%s %s", w.Reason, finding.Clean(w.Message))
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return false, fmt.Errorf("%w: %s %s", nodes.ErrImage, pod.Status.Reason, finding.Clean(pod.Status.Message))
	}
	return false, errors.New("the kubelet has not begun")
}

func podOfImage(image, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fleet.NewPodName(imagePod, node), Namespace: v1alpha1.Namespace,
			Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager},
		},
		Spec: corev1.PodSpec{
			NodeName: node, HostNetwork: true, RestartPolicy: corev1.RestartPolicyNever,
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			PriorityClassName: "system-node-critical",
			Tolerations:       []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "image", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"--help"},
			}},
		},
	}
}
