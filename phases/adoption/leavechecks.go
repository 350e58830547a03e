package adoption

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// checkMode, and the checks after it, refuse what this command does not take back: all that stands in its way at once.
func checkMode(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil || s.Mode == config.ModeDaemonSet || s.Mode == config.ModeDeployment {
		return err
	}
	return finding.Refusedf("leave in mode %s: leave supports modes DaemonSet and Deployment", s.Mode).
		WithHint("`ccmadm apply -f FILE` with mode: DaemonSet, or Deployment, first")
}

func checkVIP(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil || s.ControlPlaneVIP.Address == "" {
		return err
	}
	return finding.Refusedf("leave: every kubelet uses the control plane VIP %s, which ccmadm's pods announce", s.ControlPlaneVIP.Address).
		WithHint("a cluster with controlPlaneVIP cannot leave; to remove ccmadm, run `ccmadm reset` on each machine. Nothing was changed")
}

func checkRoutes(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil || !s.WantsRoutes() {
		return err
	}
	return finding.Refusedf("leave: the pods' network is the routes that provider %s sets", s.Provider).
		WithHint("install a CNI plugin, then `ccmadm apply -f FILE` with routes: false")
}

// checkStaticPods leaves it to checkMode where the mode is that.
func checkStaticPods(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil || s.Mode == config.ModeStaticPod {
		return err
	}
	return adoptionOf(r).refuseStaticPods(ctx, r.Env)
}

// checkBalancers waits for none where something else stands in the way.
func checkBalancers(ctx context.Context, r *workflow.Run) error {
	if _, err := r.Settings(ctx); err != nil {
		return err
	}
	possible := errors.Join(checkMode(ctx, r), checkVIP(ctx, r), checkRoutes(ctx, r)) == nil
	return adoptionOf(r).refuseBalancers(ctx, r.Env, possible)
}

// refuseStaticPods finds control planes to which another mode has not come yet: their managers would stay running.
func (a *Adoption) refuseStaticPods(ctx context.Context, env *workflow.Env) error {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return err
	}
	pods, err := record.StaticPods(ctx, client)
	if err != nil {
		return finding.Refusedf("look for static pods: %w", err).WithHint("nothing was changed")
	}
	var left []string
	for i := range pods {
		left = append(left, pods[i].Spec.NodeName)
	}
	if len(left) == 0 {
		return manager.RefuseForgotten(ctx, client, a.Skip)
	}
	return finding.Refusedf("leave: the manager is still a static pod on %s", strings.Join(left, ", ")).
		WithHint("run `ccmadm apply` on these nodes: it removes the static pod; nothing was changed")
}

// refuseBalancers finds the load balancers that nobody would serve any more, nor take away with their Service.
func (a *Adoption) refuseBalancers(ctx context.Context, env *workflow.Env, await bool) error {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return err
	}
	found, err := balancers(ctx, client)
	if err == nil && len(found) > 0 && a.WaitLoadBalancers > 0 && await && !env.DryRun {
		found, err = a.awaitBalancers(ctx, env, client, found)
	}
	if err != nil {
		return finding.Refusedf("look for load balancers: %w", err).WithHint("nothing was changed")
	}
	if len(found) == 0 {
		return nil
	}
	if a.KeepLoadBalancers {
		env.Sayf("kept with their addresses, and no longer served: Service/%s; while another provider's "+
			"finalizer %s is on one, it cannot be deleted", strings.Join(found, ", Service/"), v1alpha1.LoadBalancerFinalizer)
		return nil
	}
	return finding.Refusedf("leave: these have load balancers, which would no longer be served or removed: Service/%s",
		strings.Join(found, ", Service/")).
		WithHint("delete them, or make them of another type, first; --wait-load-balancers waits for it, " +
			"--keep-load-balancers keeps them and their addresses")
}

// balancers are the Services that have one, or cannot go without its end. Those of somebody else's class are that
// one's.
func balancers(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	list, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var found []string
	for i := range list.Items {
		s := &list.Items[i]
		elsewhere := ptr.Deref(s.Spec.LoadBalancerClass, v1alpha1.LoadBalancerClass) != v1alpha1.LoadBalancerClass
		has := s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) > 0
		if slices.Contains(s.Finalizers, v1alpha1.LoadBalancerFinalizer) || has && !elsewhere {
			found = append(found, s.Namespace+"/"+s.Name)
		}
	}
	return found, nil
}

// awaitBalancers waits while the manager still runs, which takes away the load balancers of Services that are deleted.
// It returns those that are left in the end.
func (a *Adoption) awaitBalancers(ctx context.Context, env *workflow.Env, client kubernetes.Interface, found []string) ([]string, error) {
	env.Sayf("waiting up to %s for these to be gone: Service/%s", a.WaitLoadBalancers,
		strings.Join(found, ", Service/"))
	var last error
	answered := false
	waiting := env.Waiting("load balancers to be gone", a.WaitLoadBalancers)
	err := wait.PollUntilContextTimeout(ctx, 2*time.Second, a.WaitLoadBalancers, false,
		func(ctx context.Context) (bool, error) {
			now, err := balancers(ctx, client)
			if err != nil && ctx.Err() != nil && answered {
				return false, nil // the time was over before the answer: the one before it counts
			}
			answered = err == nil
			if last = err; err == nil {
				found = now
				waiting.Still(fmt.Errorf("there is Service/%s", strings.Join(found, ", Service/")))
			}
			return err == nil && len(now) == 0, nil
		})
	if wait.Interrupted(err) && ctx.Err() == nil && last == nil {
		return found, nil
	}
	return found, errors.Join(err, last)
}

// showWhatGoes lists nodes, objects and files, and says what stays.
func (a *Adoption) showWhatGoes(ctx context.Context, r *workflow.Run, plan []*fleet.Node) error {
	for _, n := range plan {
		if !n.Skipped {
			r.Sayf("would take Node/%s out of external mode; its provider ID %s stays", n.Name, finding.Clean(n.ProviderID))
		}
	}
	subjects, err := appliedSubjects(ctx, r.Env)
	if err != nil {
		return err
	}
	stays, kinds := "; the manager's Lease and the journal", []schema.GroupVersionKind{claimKind()}
	if a.Purge {
		kinds = kindsOfOurs()
	}
	ours, err := leftOfOurs(ctx, r.Env, kinds)
	if err == nil {
		ours, err = onlyApplied(ctx, r.Env, ours)
	}
	if err != nil {
		return err
	}
	for _, o := range ours {
		if !slices.Contains(subjects, o.subject) {
			subjects = append(subjects, o.subject)
		}
	}
	if a.Purge {
		s, err := r.Settings(ctx)
		if err != nil {
			return err
		}
		subjects = append(subjects, "Lease/"+v1alpha1.Namespace+"/"+s.Profile.LeaseName()+
			", unless another cloud-controller-manager renews it")
		stays = ""
	}
	for _, subject := range subjects {
		if strings.HasPrefix(subject, "CustomResourceDefinition/") {
			subject += ", and every object of that kind"
		}
		r.Sayf("would remove %s", subject)
	}
	r.Sayf("stays: provider IDs, which cannot be changed, so that another provider accepts only nodes that are recreated; "+
		"labels of zone, region and type; what kubeadm's configuration lost%s", stays)
	return nil
}

// appliedSubjects are the objects that are removed with what was applied.
func appliedSubjects(ctx context.Context, env *workflow.Env) ([]string, error) {
	config, err := workflow.RESTConfig(env, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	printer, err := apply.NewPrinter(config, io.Discard)
	if err != nil {
		return nil, err
	}
	changes, err := printer.Remove(ctx)
	if err != nil {
		return nil, finding.Refusedf("list what was applied: %w", err).WithHint("nothing was changed")
	}
	var subjects []string
	for _, c := range changes {
		subjects = append(subjects, c.Subject)
	}
	return subjects, nil
}
