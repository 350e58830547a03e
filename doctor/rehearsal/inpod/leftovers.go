package inpod

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/runlease"
)

// removalPatience is for all that is removed, podPatience for the pod among it: its program has ten seconds to end.
const (
	removalPatience = 2 * time.Minute
	podPatience     = 45 * time.Second
)

// kind is one of which a rehearsal has objects, inside of its namespace or elsewhere.
type kind struct {
	schema.GroupVersionResource
	inside bool
}

// kinds are in the order in which they go: first what runs, then what it may do, then what it knows; what keeps it from
// writing is last but the namespace.
func kinds() []kind {
	const rbac, admission = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
	of := func(group, resource string, inside bool) kind {
		return kind{schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, inside}
	}
	return []kind{
		of("", "pods", true),
		of(rbac, "clusterrolebindings", false), of(rbac, "rolebindings", false),
		of(rbac, "clusterroles", false), of(rbac, "roles", false),
		of("", "secrets", true), of("", "serviceaccounts", true), of("coordination.k8s.io", "leases", true),
		of(admission, "validatingadmissionpolicybindings", false), of(admission, "validatingadmissionpolicies", false),
		of("", "namespaces", false),
	}
}

// remove takes a rehearsal's objects away, its own or that of another run. What cannot be removed does not keep it from
// the rest. The namespace's controller ends the namespace itself afterwards; nothing of ours is in it then.
func (r *run) remove(ctx context.Context, name string) error {
	var errs []error
	for _, k := range kinds() {
		if err := r.removeKind(ctx, k, name); err != nil {
			errs = append(errs, fmt.Errorf("remove %s of the rehearsal %s: %w", k.Resource, name, err))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return finding.Errorf("%w", errors.Join(errs...)).
		WithHint("the next rehearsal removes them; or: kubectl delete namespace %s", name)
}

func (r *run) removeKind(ctx context.Context, k kind, name string) error {
	namespace := ""
	if k.inside {
		namespace = name
	}
	resource := r.dynamic.Resource(k.GroupVersionResource)
	labelled := metav1.ListOptions{LabelSelector: v1alpha1.RehearsalLabel + "=" + name}
	list := func(ctx context.Context) ([]metav1.Object, error) {
		found, err := resource.Namespace(namespace).List(ctx, labelled)
		if apierrors.IsNotFound(err) { // an API server without this kind
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		var ours []metav1.Object
		for i := range found.Items { // labels are copied, names are not
			if o := &found.Items[i]; strings.HasPrefix(o.GetName(), name) {
				ours = append(ours, o)
			}
		}
		return ours, nil
	}
	found, err := list(ctx)
	if err != nil {
		return err
	}
	for _, o := range found {
		uid := o.GetUID()
		err := resource.Namespace(o.GetNamespace()).Delete(ctx, o.GetName(),
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	if k.Resource != "pods" || len(found) == 0 {
		return nil
	}
	return wait.PollUntilContextTimeout(ctx, often, podPatience, true, func(ctx context.Context) (bool, error) {
		left, err := list(ctx)
		return err == nil && len(left) == 0, nil
	})
}

// runLease is that among the objects, whose name no other run has.
func (r *run) runLease() *runlease.Lease {
	return &runlease.Lease{Client: r.client, Namespace: r.name, Name: r.name, Holder: r.Holder, Lasts: runlease.Lasts}
}

// removeLeftovers removes what runs have left that were killed. Those that are under way stay.
func (r *run) removeLeftovers(ctx context.Context) error {
	before, err := r.others(ctx)
	if err != nil || len(before) == 0 {
		return err
	}
	r.tell("looking whether %d other rehearsals are under way", len(before))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(runlease.Lasts):
	}
	after, err := r.others(ctx)
	if err != nil {
		return err
	}
	for name, lease := range after {
		holder := finding.Clean(runlease.Holder(lease))
		if was, known := before[name]; !known || !runlease.Unchanged(was, lease) {
			r.tell("%s is under way, by %s", name, holder)
			continue
		}
		r.tell("removing %s, left by %s", name, holder)
		if err := r.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// others are the rehearsals that there are, by name, with their Leases, empty where there is none. One whose namespace is on its way out is none.
func (r *run) others(ctx context.Context) (map[string]*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := r.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.RehearsalLabel})
	if err != nil {
		return nil, fmt.Errorf("look for other rehearsals: %w", err)
	}
	found := map[string]*coordinationv1.Lease{}
	for _, n := range list.Items {
		ours := strings.HasPrefix(n.Name, v1alpha1.RehearsalPrefix) && n.Labels[v1alpha1.RehearsalLabel] == n.Name
		if !ours || n.DeletionTimestamp != nil {
			continue
		}
		lease, err := r.client.CoordinationV1().Leases(n.Name).Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("look at Lease/%s/%s: %w", n.Name, n.Name, err)
		}
		found[n.Name] = lease
	}
	return found, nil
}
