package adoption

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// onlyApplied are the objects that the list of what was applied has, and those that ccmadm writes beside it. It names
// the others: a GitOps controller applies the same labels from `ccmadm render`.
func onlyApplied(ctx context.Context, env *workflow.Env, found []leftover) ([]leftover, error) {
	subjects, err := appliedSubjects(ctx, env)
	if err != nil {
		return nil, err
	}
	ours, others := splitApplied(found, subjects)
	for _, subject := range others {
		env.Sayf("%s stays: it has the label %s=%s, and ccmadm did not apply it; `kubectl delete` removes it", subject,
			v1alpha1.ManagedByLabel, v1alpha1.FieldManager)
	}
	return ours, nil
}

func splitApplied(found []leftover, applied []string) (ours []leftover, others []string) {
	for _, o := range found {
		if slices.Contains(applied, o.subject) || writtenByRuns(o.subject) {
			ours = append(ours, o)
		} else {
			others = append(others, o.subject)
		}
	}
	return ours, others
}

// writtenByRuns are objects of ours that no list has: a run, the manager or the provider writes them.
func writtenByRuns(subject string) bool {
	const namespace = "/" + v1alpha1.Namespace + "/"
	for _, prefix := range []string{claimKind().Kind + "/", "Pod" + namespace + v1alpha1.FieldManager + "-"} {
		if strings.HasPrefix(subject, prefix) {
			return true
		}
	}
	if strings.Contains(subject, "/"+v1alpha1.RehearsalPrefix) { // of a rehearsal that was cut short
		return true
	}
	return isAppliedList(subject) || slices.Contains([]string{
		"ConfigMap" + namespace + v1alpha1.RecordName,
		"ConfigMap" + namespace + v1alpha1.JournalName,
		"ConfigMap" + namespace + v1alpha1.LastGoodMachinesName,
		leaseKind().Kind + namespace + v1alpha1.RunLeaseName,
		leaseKind().Kind + namespace + v1alpha1.AgentReaderLease,
	}, subject)
}

// isAppliedList tells the list of what was applied, under both of its names.
func isAppliedList(subject string) bool {
	const maps = "ConfigMap/" + v1alpha1.Namespace + "/"
	return subject == maps+v1alpha1.AppliedName || subject == maps+v1alpha1.FormerAppliedName
}

func removeObjects() workflow.Phase {
	return workflow.Phase{
		Name:  "objects",
		Short: "Remove the cloud-controller-manager, and all that was applied for it",
		Long: "Reads the ConfigMap kube-system/" + v1alpha1.AppliedName + ". Removes what it lists, the manager first and\n" +
			"the record last. Waits until what runs has ended, and gives back what our provider held of Services, before\n" +
			"permissions go: claims, conditions and finalizers; addresses stay in their status. With --purge the record " +
			"stays\n" +
			"until all else has gone. It stops where a machine has joined in external cloud mode meanwhile.",
		Plan: planObjects,
		Run: func(ctx context.Context, r *workflow.Run) error {
			a := adoptionOf(r)
			applier, err := workflow.NewApplier(r.Env, machine.AdminConf)
			if err != nil {
				return err
			}
			if err := a.refuseJoined(ctx, r); err != nil {
				return err
			}
			if err := removeWorkloads(ctx, r, applier); err != nil {
				return err
			}
			if err := a.refuseJoined(ctx, r); err != nil { // one may have registered after the manager has ended
				return err
			}
			return a.removeRest(ctx, r.Env, applier)
		},
	}
}

// planObjects leaves the list to preflight, which asks behind it, but for the journal: a way back goes by what was
// there.
func planObjects(ctx context.Context, r *workflow.Run) (string, error) {
	if r.Preview {
		subjects, err := appliedSubjects(ctx, r.Env)
		if err != nil {
			return "", err
		}
		r.NoteChange(true)
		for _, subject := range subjects {
			fmt.Fprintln(r.Out, subject+" removed")
		}
	}
	return "would remove the cloud-controller-manager, and the objects that were listed", nil
}

// refuseJoined finds machines that have joined since the plan was made. Nobody would take their taint away, and without
// the record no further run would take them out of external mode. A kubelet without --node-ip repeats no address: of one
// that the plan does not have, only its own flags tell that it is in no external mode.
func (a *Adoption) refuseJoined(ctx context.Context, r *workflow.Run) error {
	client, err := workflow.Connect(r.Env, machine.AdminConf)
	if err != nil {
		return err
	}
	plan, err := a.plannedNodes(ctx, r)
	if err != nil {
		return err
	}
	list, err := workflow.AskNodes(ctx, client)
	if err != nil {
		return fmt.Errorf("look whether machines have joined meanwhile: %w", err)
	}
	var names []string
	for i := range list.Items {
		n := &list.Items[i]
		if slices.Contains(a.Skip, n.Name) {
			continue
		}
		external := fleet.IsExternal(n) || nodes.IsTainted(n)
		if !external && !slices.ContainsFunc(plan, func(p *fleet.Node) bool { return p.Name == n.Name }) {
			flags := nodes.KubeletFlags(ctx, client, n.Name)
			external = flags == nil || flags["cloud-provider"] == "external"
		}
		if external {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return finding.Errorf("leave: these Nodes are still in external cloud mode, as far as is known, or have the uninitialized taint: Node/%s",
		strings.Join(names, ", Node/")).
		WithHint("they joined during the run: run the same command again to take them out, too; --skip %s leaves them as they are. "+
			"The cluster's record was not removed", strings.Join(names, ","))
}

// removeWorkloads takes away what runs, and waits until it has ended: for as long it needs its permissions, and it is
// not left before.
func removeWorkloads(ctx context.Context, r *workflow.Run, applier apply.Applier) error {
	s, err := r.Settings(ctx)
	if err != nil {
		return err
	}
	client, err := workflow.Connect(r.Env, machine.AdminConf)
	if err != nil {
		return err
	}
	if err := removeSets(ctx, r.Env, applier, apply.Addon); err != nil {
		return err
	}
	if err := awaitEnd(ctx, r.Env, client, manifests.WorkloadName(s.Profile)); err != nil {
		return err
	}
	if err := removeSets(ctx, r.Env, applier, apply.NodeAgent); err != nil {
		return err
	}
	if err := awaitEnd(ctx, r.Env, client, v1alpha1.AgentName); err != nil {
		return err
	}
	return releaseBalancers(ctx, r, client)
}

// releaseBalancers gives back what our provider held of Services, with nobody left who would take it again: to one that
// comes back some day, a claim would say that it serves what somebody else has served since.
func releaseBalancers(ctx context.Context, r *workflow.Run, client kubernetes.Interface) error {
	var claims []leftover
	err := journal.Ask(ctx, func(ctx context.Context) (err error) {
		claims, err = leftOfOurs(ctx, r.Env, []schema.GroupVersionKind{claimKind()})
		return err
	})
	if err != nil {
		return err
	}
	err = journal.Ask(ctx, func(ctx context.Context) error { return r.ReleaseBalancers(ctx, client) })
	if err != nil {
		return finding.Errorf("release what is held of Services: %w", err).WithHint("run the same command again: it resumes")
	}
	for _, c := range claims {
		r.Sayf("%s removed", c.subject)
	}
	return nil
}

// endsWithin is what a pod has to end in: its grace, and some time for its kubelet.
const endsWithin = time.Minute

// awaitEnd waits until no pod of a workload of ours is left. One on a machine that is gone stays for ever; it has no
// permissions soon. An API server that cannot be asked has not said that none is left.
func awaitEnd(ctx context.Context, env *workflow.Env, client kubernetes.Interface, name string) error {
	answered, err := goneInTime(ctx, client, name)
	switch {
	case err == nil:
		return nil
	case !answered:
		return finding.Errorf("%w", err).WithHint("run the same command again: it resumes")
	}
	env.Sayf("warning, it goes on without: %v", err)
	return nil
}

// goneInTime waits for the same. The API server may have answered, and a pod is left, or it cannot be asked.
func goneInTime(ctx context.Context, client kubernetes.Interface, name string) (answered bool, err error) {
	err = manager.UntilGone(ctx, endsWithin, func(ctx context.Context) (*corev1.Pod, error) {
		pods, err := manager.WorkloadPods(ctx, client, name)
		if ctx.Err() == nil { // the end of the wait is no answer
			answered = err == nil
		}
		if len(pods) == 0 {
			return nil, err
		}
		return &pods[0], nil
	})
	if err != nil {
		return answered && ctx.Err() == nil, fmt.Errorf("wait %s for the pods of %s to end: %w", endsWithin, name, err)
	}
	return true, nil
}

func (a *Adoption) removeRest(ctx context.Context, env *workflow.Env, applier apply.Applier) error {
	if err := removeSets(ctx, env, applier, apply.RBAC, apply.CloudConfig, apply.Inventory); err != nil {
		return err
	}
	if a.Purge { // which goes by the record until all else has gone
		return nil
	}
	return removeApplied(ctx, env, applier)
}

// removeApplied takes away what is still there of all that was applied, the cluster's record last.
func removeApplied(ctx context.Context, env *workflow.Env, applier apply.Applier) error {
	ctx, cancel := context.WithTimeout(ctx, workflow.ApplyTimeout)
	defer cancel()
	changes, err := applier.Remove(ctx)
	sayDeleted(env, changes)
	return err
}

func removeSets(ctx context.Context, env *workflow.Env, applier apply.Applier, sets ...apply.Set) error {
	ctx, cancel := context.WithTimeout(ctx, workflow.ApplyTimeout)
	defer cancel()
	for _, set := range sets {
		changes, err := applier.Apply(ctx, set, nil)
		sayDeleted(env, changes)
		if err != nil {
			return err
		}
	}
	return nil
}

func sayDeleted(env *workflow.Env, changes []apply.Change) {
	for _, c := range changes {
		if c.Differs() && !isAppliedList(c.Subject) {
			workflow.SayChange(env, c)
			env.NoteChange(true)
		}
	}
}
