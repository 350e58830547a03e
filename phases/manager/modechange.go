package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// ApplyControlPlane is controlPlane in a cluster whose mode may have changed. A static pod and a pod that the cluster
// schedules have the same port, and a kubelet that has refused a static pod for it does not try again.
func ApplyControlPlane() workflow.Phase {
	p := ControlPlane()
	p.Short = "Write the cloud-controller-manager's static pod, or in another mode take it away"
	p.Long += `
Where the cluster schedules the manager, a static pod that ccmadm has written on this machine is taken away. Either way
it waits until the pod that had the port before is gone.`
	p.Only = workflow.ManagedModes()
	write := p.Run
	p.Run = func(ctx context.Context, r *workflow.Run) error {
		s, err := r.Settings(ctx)
		if err != nil {
			return err
		}
		if s.Mode == config.ModeStaticPod {
			if err := awaitGone(ctx, r.Host, s, workloadHere, func() error { return nil }); err != nil {
				return err
			}
			return write(ctx, r)
		}
		if err := refuseEditedManifest(r.Env); err != nil {
			return err
		}
		there, err := r.Machine.Exists(machine.CCMManifest)
		if err != nil || !there {
			return err
		}
		return awaitGone(ctx, r.Host, s, staticPodHere, func() error { return workflow.Remove(r.Env, machine.CCMManifest) })
	}
	return p
}

// formerManagers ends a change of mode.
func formerManagers() workflow.Phase {
	return workflow.Phase{
		Name:  "former-manager",
		Short: "Take away what the cloud-controller-manager of the former mode has used",
		Long: `Reads the pods and workloads of the cloud-controller-manager. Where the cluster schedules it, removes
` + machine.CCMKubeconfig + ` of this machine, and the provider's files below ` + machine.CloudConfigDir + `;
and the permissions of the former manager, once that runs nowhere.`,
		Only: workflow.ManagedModes(),
		Run: func(ctx context.Context, r *workflow.Run) error {
			s, err := r.Settings(ctx)
			if err != nil {
				return err
			}
			if s.Mode != config.ModeStaticPod {
				if err := removeStaticFiles(ctx, r.Env, s); err != nil {
					return err
				}
			}
			client, err := workflow.Connect(r.Env, machine.AdminConf)
			if err != nil {
				return err
			}
			name := v1alpha1.Prefix + s.Profile.Name
			binding, err := client.RbacV1().ClusterRoleBindings().Get(ctx, name, metav1.GetOptions{})
			switch {
			case err != nil && !apierrors.IsNotFound(err):
				return fmt.Errorf("look at ClusterRoleBinding/%s: %w", name, err)
			case len(binding.Subjects) < 2: // or there is none
				return nil
			}
			former, err := formerElsewhere(ctx, r.Host, s)
			if err != nil || former {
				return err
			}
			return applyRBAC(ctx, r, false)
		},
	}
}

// removeStaticFiles takes away what the static pod has read on this machine, but for an identity that is the administrator's.
func removeStaticFiles(ctx context.Context, env *workflow.Env, s *settings.Settings) error {
	if err := RemoveCertsTimer(ctx, env); err != nil {
		return err
	}
	if err := writeCloudFiles(env, nil); err != nil {
		return err
	}
	kept, err := identity.Kept(env.Machine, s.CertificatesDir)
	if err != nil {
		return err
	}
	if kept {
		env.Sayf("%s stays: it is yours", machine.CCMKubeconfig)
		return nil
	}
	return workflow.Remove(env, machine.CCMKubeconfig)
}

// formerManager tells whether a manager runs that is of another kind than the settings want: static pods, or what the
// cluster schedules.
func formerManager(ctx context.Context, h *workflow.Host, s *settings.Settings) (bool, error) {
	if s.Mode != config.ModeStaticPod {
		here, err := h.Machine.Exists(machine.CCMManifest)
		if err != nil || here {
			return here, err
		}
		return formerElsewhere(ctx, h, s)
	}
	return ScheduledManager(ctx, h.Env, s)
}

// ScheduledManager finds a DaemonSet or a Deployment: a change of mode that was cut short has left either.
func ScheduledManager(ctx context.Context, env *workflow.Env, s *settings.Settings) (bool, error) {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return false, err
	}
	for _, mode := range []config.Mode{config.ModeDaemonSet, config.ModeDeployment} {
		_, err := record.GetWorkload(ctx, client, mode, manifests.WorkloadName(s.Profile))
		if err == nil {
			return true, nil
		}
		if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("look for the %s of the cloud-controller-manager: %w", mode, err)
		}
	}
	return false, nil
}

// formerElsewhere leaves out this machine, and the workload, which have been changed by then, or in a dry run would be.
func formerElsewhere(ctx context.Context, h *workflow.Host, s *settings.Settings) (bool, error) {
	if s.Mode == config.ModeStaticPod {
		return false, nil
	}
	client, err := workflow.Connect(h.Env, machine.AdminConf)
	if err != nil {
		return false, err
	}
	node, err := workflow.NodeName(h)
	if err != nil {
		return false, err
	}
	pods, err := record.StaticPods(ctx, client)
	if err != nil || slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName != node }) {
		return err == nil, err
	}
	forgotten, err := forgottenPods(ctx, client)
	return slices.ContainsFunc(forgotten, func(name string) bool { return name != node }), err
}

// stillThere returns the pod of the former manager on this machine; nil: there is none.
type stillThere func(ctx context.Context, client kubernetes.Interface, s *settings.Settings, node string) (*corev1.Pod, error)

func staticPodHere(ctx context.Context, client kubernetes.Interface, _ *settings.Settings, node string) (*corev1.Pod, error) {
	pods, err := record.ShownPods(ctx, client)
	return onNode(pods, node), err
}

func workloadHere(ctx context.Context, client kubernetes.Interface, s *settings.Settings, node string) (*corev1.Pod, error) {
	pods, err := WorkloadPods(ctx, client, manifests.WorkloadName(s.Profile))
	return onNode(pods, node), err
}

func onNode(pods []corev1.Pod, node string) *corev1.Pod {
	for i := range pods {
		if pods[i].Spec.NodeName == node {
			return &pods[i]
		}
	}
	return nil
}

// WorkloadPods are those of the DaemonSet or Deployment.
func WorkloadPods(ctx context.Context, client kubernetes.Interface, name string) ([]corev1.Pod, error) {
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.NameLabel: name}})
	list, err := client.CoreV1().Pods(v1alpha1.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the pods of the cloud-controller-manager: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return nodes.IsMirror(&p) }), nil
}

// lookForPort is how often it is asked whether the port is free: until then nobody leads.
const lookForPort = 200 * time.Millisecond

// awaitGone makes this machine's pod of the former manager leave, and waits until it is gone, and its port free. Where
// that cannot be asked it does not begin.
func awaitGone(ctx context.Context, h *workflow.Host, s *settings.Settings, still stillThere, leave func() error) error {
	node, err := workflow.NodeName(h)
	if err != nil {
		return err
	}
	client, err := workflow.Connect(h.Env, machine.AdminConf)
	if err != nil {
		return err
	}
	if _, err := still(ctx, client, s, node); err != nil {
		return err
	}
	if err := leave(); err != nil || h.DryRun {
		return err
	}
	timeout := s.Wait.Timeout.Duration
	err = UntilGone(ctx, timeout, func(ctx context.Context) (*corev1.Pod, error) { return still(ctx, client, s, node) })
	if err == nil {
		return nil
	}
	return &finding.Error{
		Code: finding.ExitNotInTime,
		Err:  fmt.Errorf("wait for the former cloud-controller-manager to leave Node/%s: %w", node, err),
		Hint: "run the same command again: it resumes; ccmadm apply without -f returns to the former mode",
	}
}

// UntilGone asks until there is no such pod any more. Its error is why it cannot tell, or which is left.
func UntilGone(
	ctx context.Context, timeout time.Duration, still func(context.Context) (*corev1.Pod, error),
) error {
	last := errors.New("it was not asked for yet")
	err := wait.PollUntilContextTimeout(ctx, lookForPort, timeout, true, func(ctx context.Context) (bool, error) {
		pod, err := still(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			last = err
		case err == nil && pod != nil:
			last = fmt.Errorf("still there: Pod/%s/%s", pod.Namespace, pod.Name)
		}
		return err == nil && pod == nil, nil
	})
	if err == nil {
		return nil
	}
	return last
}
