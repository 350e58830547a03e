package lbtest

import (
	"context"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/access"
)

// firstPatience is how long an API server that does not answer is asked before anything is made.
const firstPatience = 20 * time.Second

// needs are the permissions of a run.
func (s *suite) needs() []authorizationv1.ResourceAttributes {
	var list []authorizationv1.ResourceAttributes
	add := func(namespace, group, resource string, verbs ...string) {
		resource, sub, _ := strings.Cut(resource, "/")
		for _, verb := range verbs {
			list = append(list, authorizationv1.ResourceAttributes{
				Namespace: namespace, Group: group, Resource: resource, Subresource: sub, Verb: verb,
			})
		}
	}
	add("", "", "namespaces", "create", "get", "delete")
	add("", "", "nodes", "list")
	add(s.Namespace, "", "services", "create", "get", "list", "patch", "delete")
	add(s.Namespace, "", "pods", "create", "list")
	add(s.Namespace, "coordination.k8s.io", "leases", "create", "get", "update")
	if s.MaxNodes > 0 {
		add(s.Namespace, "", "pods/proxy", "get")
	}
	if s.Disrupt {
		add(v1alpha1.Namespace, "", "pods", "list", "delete")
		add("", "", "services", "list")
		add("", "discovery.k8s.io", "endpointslices", "list")
		add("", "networking.k8s.io", "ipaddresses", "list")
		for _, resource := range []string{"addresspools", "bgppeers", "nodeagents", "nodeagentleases", "nodeannouncements", "noderoutes"} {
			add("", v1alpha1.GroupName, resource, "list")
		}
	}
	return list
}

// permitted asks whether the user may do all that it takes, before anything is made.
func (s *suite) permitted(ctx context.Context) error {
	defer func(patience time.Duration) { s.api.patience = patience }(s.api.patience)
	s.api.patience = min(s.api.patience, firstPatience)
	var denied []string
	for _, a := range s.needs() {
		var what string
		err := s.api.do(ctx, "ask what this user may do", func(ctx context.Context) (err error) {
			what, err = access.Denied(ctx, s.client, a)
			return err
		})
		if err != nil {
			return err
		}
		if what != "" {
			denied = append(denied, what+where(a))
		}
	}
	if len(denied) > 0 {
		return finding.Preflightf("test load balancers: this user may not %s", strings.Join(slices.Compact(denied), ", ")).
			WithHint("docs/tasks/test-load-balancers.md has a ClusterRole with all that is needed")
	}
	return nil
}

func where(a authorizationv1.ResourceAttributes) string {
	if a.Namespace == "" {
		return ""
	}
	return " in namespace " + a.Namespace
}
