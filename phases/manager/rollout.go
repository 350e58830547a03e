package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Rollout waits until the manager that was applied runs.
func Rollout() workflow.Phase {
	return workflow.Phase{
		Name:  "rollout",
		Short: "Wait until the cloud-controller-manager that was applied runs, and leads or stands by",
		Long: `Reads the workload, or this machine's static pod and those of the other control planes, and the leader's Lease. Writes
nothing. Control planes that still run another static pod are named: the same command brings it to each of them.`,
		Only: workflow.ManagedModes(),
		Plan: planRollout,
		Run:  RunRollout,
	}
}

func planRollout(ctx context.Context, r *workflow.Run) (string, error) {
	s, err := r.Settings(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("would wait up to %s for the cloud-controller-manager", s.Wait.Timeout.Duration), nil
}

// RunRollout waits until the manager that was applied runs, and leads or stands by.
func RunRollout(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil {
		return err
	}
	client, err := workflow.Connect(r.Env, machine.AdminConf)
	if err != nil {
		return err
	}
	wanted, err := wantedManager(r.Host, s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Wait.Timeout.Duration)
	defer cancel()
	if err := Await(ctx, r.Env, "the cloud-controller-manager to run", wanted.Runs(client)); err != nil {
		return err
	}
	if err := Await(ctx, r.Env, "its Lease to be renewed", Renewed(client, s.Profile.LeaseName())); err != nil {
		return err
	}
	r.Sayf("the cloud-controller-manager runs, and its Lease is renewed")
	return wanted.NameOthers(ctx, r, client)
}

// Wanted is the cloud-controller-manager as it was applied.
type Wanted struct {
	Mode config.Mode
	Name string      // of the DaemonSet or Deployment
	Pod  *corev1.Pod // or the static pod of this machine, and its Node
	Node string
}

func wantedManager(h *workflow.Host, s *settings.Settings) (*Wanted, error) {
	if s.Mode == config.ModeStaticPod {
		return StaticManager(h)
	}
	node, err := workflow.NodeName(h)
	return &Wanted{Mode: s.Mode, Name: manifests.WorkloadName(s.Profile), Node: node}, err
}

// probe returns why something is not there yet; nil: it is.
type probe func(context.Context) error

// Await asks until there is nothing against it, and tells what it waits for. What the probe says last is the reason when time is
// up.
func Await(ctx context.Context, env *workflow.Env, what string, p probe) error {
	var last error
	deadline, _ := ctx.Deadline()
	waiting := env.Waiting(what, time.Until(deadline))
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		why := p(ctx)
		if ctx.Err() == nil || last == nil { // the end of time is no reason
			last = why
		}
		if why != nil {
			waiting.Still(why)
		}
		return why == nil, nil
	})
	if err == nil {
		return nil
	}
	return &finding.Error{
		Code: finding.ExitNotInTime, Err: fmt.Errorf("wait for the cloud-controller-manager: %w", last),
		Hint: "everything was applied; ccmadm status shows the cause. The same command can be run again safely",
	}
}

// Runs tells whether the manager runs as it was applied, as a condition to wait for.
func (m *Wanted) Runs(client kubernetes.Interface) probe {
	if m.Pod == nil {
		return m.workloadRuns(client)
	}
	return func(ctx context.Context) error {
		pods, err := record.ShownPods(ctx, client)
		if err != nil {
			return err
		}
		switch pod := onNode(pods, m.Node); {
		case pod == nil:
			return fmt.Errorf("no such static pod on Node/%s yet", m.Node)
		case !m.Same(pod):
			return fmt.Errorf("the kubelet of Node/%s still runs the former static pod", m.Node)
		case !nodes.IsPodReady(pod):
			return fmt.Errorf("not ready: Pod/%s/%s", pod.Namespace, pod.Name)
		}
		return nil
	}
}

// workloadRuns goes by kstatus, as kubectl rollout status does: every pod is of the newest template, and is available.
// While static pods on other control planes have its port, one pod of it is enough.
func (m *Wanted) workloadRuns(client kubernetes.Interface) probe {
	return func(ctx context.Context) error {
		left, err := record.StaticPods(ctx, client)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return m.podRuns(ctx, client)
		}
		object, err := record.GetWorkload(ctx, client, m.Mode, m.Name)
		if err != nil {
			return err
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return err
		}
		live := &manifests.Object{Object: content}
		live.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(string(m.Mode)))
		result, err := kstatus.Compute(live)
		if err != nil {
			return err
		}
		if result.Status != kstatus.CurrentStatus {
			return fmt.Errorf("%s/%s/%s: %s", m.Mode, v1alpha1.Namespace, m.Name, result.Message)
		}
		return nil
	}
}

// podRuns wants a pod that is ready: of a DaemonSet that of this machine.
func (m *Wanted) podRuns(ctx context.Context, client kubernetes.Interface) error {
	pods, err := WorkloadPods(ctx, client, m.Name)
	if err != nil {
		return err
	}
	for i := range pods {
		if nodes.IsPodReady(&pods[i]) && (m.Mode != config.ModeDaemonSet || pods[i].Spec.NodeName == m.Node) {
			return nil
		}
	}
	return fmt.Errorf("no pod of %s/%s/%s is ready on Node/%s", m.Mode, v1alpha1.Namespace, m.Name, m.Node)
}

// Renewed waits for a renewal that it sees itself: no two clocks are compared.
func Renewed(client kubernetes.Interface, name string) probe {
	var first *metav1.MicroTime
	return func(ctx context.Context) error {
		lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case lease.Spec.RenewTime == nil:
			return fmt.Errorf("there is no holder in Lease/%s/%s", lease.Namespace, name)
		case first == nil:
			first = lease.Spec.RenewTime
			return errors.New("no renewal of its Lease was seen yet")
		case lease.Spec.RenewTime.Equal(first):
			return fmt.Errorf("the holder of Lease/%s/%s does not renew it", lease.Namespace, name)
		}
		return nil
	}
}
