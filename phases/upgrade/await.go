package upgrade

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// cutShortPatience is how long an API server may take that kubeadm has given another etcd, and then another version.
const cutShortPatience = 5 * time.Minute

// awaitCutShort waits for the API server where this machine says that kubeadm was at work here and did not come to its
// end: it may have been cut short between two static pods, which the kubelet starts meanwhile.
func (u *Upgrade) awaitCutShort(ctx context.Context, env *workflow.Env) error {
	s, err := workflow.MachineState(env)
	if err != nil || s.KubeletFlags == "" {
		return err
	}
	client, err := workflow.AdminClient(env)
	if err != nil {
		return err
	}
	var last error
	waiting := env.Waiting("the API server", cutShortPatience)
	err = wait.PollUntilContextTimeout(ctx, time.Second, cutShortPatience, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, serviceTimeout)
		defer cancel()
		_, why := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if why != nil && last == nil {
			env.Sayf("an upgrade was cut short here, and the API server does not answer: waiting up to %s", cutShortPatience)
		}
		last = why
		if why != nil {
			waiting.Still(nil) // the reason is long, and part of the error
		}
		return why == nil, nil
	})
	if err == nil {
		return u.awaitScheduler(ctx, env, client)
	}
	return finding.Refusedf("resume the interrupted upgrade: %w", last).
		WithHint("crictl ps -a and journalctl -u kubelet show the cause; if a manifest is missing in %s, copy it back from "+
			"/etc/kubernetes/tmp/kubeadm-backup-manifests-*", machine.ManifestDir)
}

const (
	// schedulerLease is held by the kube-scheduler that schedules.
	schedulerLease = "kube-scheduler"
	// schedulerPatience is for one whose API server was gone: its Lease has to run out, and kubelets start it again later
	// each time.
	schedulerPatience = time.Minute
)

// awaitScheduler waits for who schedules the pod of the Job that `kubeadm upgrade apply` makes: up to kubeadm 1.35 it has
// 15 s to complete. A cluster with another scheduler, and one whose scheduler does not come back, are left to kubeadm,
// which says so itself.
func (u *Upgrade) awaitScheduler(ctx context.Context, env *workflow.Env, client kubernetes.Interface) error {
	if !u.first() {
		return nil
	}
	err := journal.Ask(ctx, func(ctx context.Context) error {
		_, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, schedulerLease, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read Lease/%s/%s: %w", metav1.NamespaceSystem, schedulerLease, err)
	}
	env.Sayf("an upgrade was cut short here: waiting up to %s for kube-scheduler", schedulerPatience)
	within, cancel := context.WithTimeout(ctx, schedulerPatience)
	defer cancel()
	if err := manager.Await(within, env, "a kube-scheduler", manager.Renewed(client, schedulerLease)); err != nil {
		env.Sayf("warning, no pod may be scheduled: %v", err)
	}
	return ctx.Err()
}
