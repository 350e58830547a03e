package inpod

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/access"
)

// permitted asks whether the user may do all that it takes, before anything is made. Whether he may grant what the
// pod reads the API server says when that is made.
func (r *run) permitted(ctx context.Context) error {
	asked := r.needs()
	denied, errs := make([]string, len(asked)), make([]error, len(asked))
	var wg sync.WaitGroup
	for i, a := range asked {
		wg.Go(func() { denied[i], errs[i] = access.Denied(ctx, r.client, a) })
	}
	wg.Wait()
	for _, err := range errs { // one is enough: it is the same for all
		if err != nil {
			return fmt.Errorf("ask what may be done in this cluster: %w", err)
		}
	}
	denied = slices.DeleteFunc(denied, func(text string) bool { return text == "" })
	slices.Sort(denied)
	if denied = slices.Compact(denied); len(denied) > 0 {
		return finding.Refusedf("rehearse in a pod: this user may not %s", strings.Join(denied, ", ")).
			WithHint(elsewhere)
	}
	return nil
}

func (r *run) needs() []authorizationv1.ResourceAttributes {
	list := []authorizationv1.ResourceAttributes{
		{Verb: "create", Resource: "pods", Namespace: r.name},
		{Verb: "get", Resource: "pods", Namespace: r.name},
		{Verb: "get", Resource: "pods", Subresource: "log", Namespace: r.name},
		{Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: r.name},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: r.name},
		{Verb: "list", Resource: "nodes"},
		{Verb: "impersonate", Resource: "serviceaccounts", Namespace: r.name, Name: r.name},
		{Verb: "impersonate", Resource: "groups", Name: masters},
	}
	for _, o := range r.objects {
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		list = append(list, authorizationv1.ResourceAttributes{
			Verb: "create", Group: resource.Group, Resource: resource.Resource, Namespace: o.GetNamespace(),
		})
	}
	for _, k := range kinds() {
		for _, verb := range []string{"list", "delete"} {
			a := authorizationv1.ResourceAttributes{Verb: verb, Group: k.Group, Resource: k.Resource}
			if k.inside {
				a.Namespace = r.name
			}
			list = append(list, a)
		}
	}
	return list
}
