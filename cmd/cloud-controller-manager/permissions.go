package main

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cloudconfig "k8s.io/cloud-provider/config"
	"k8s.io/klog/v2"
)

const (
	// A try costs one small request, so begin as a fast poll: kubeadm takes
	// seconds, and the Node should not wait for us. Later ones wait for a
	// fortieth of the time that has passed.
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second

	// tryTimeout is for API servers that swallow packets.
	tryTimeout = 5 * time.Second

	// remindAfter repeats a cause that does not change.
	remindAfter = time.Minute
)

// permissions lists what this process needs before it can do anything useful.
// Started without, its informers would back off for up to 30 s.
func permissions(c cloudconfig.CloudControllerManagerConfiguration) []authorizationv1.ResourceAttributes {
	var needed []authorizationv1.ResourceAttributes
	need := func(group, resource, subresource, namespace, name string, verbs ...string) {
		for _, verb := range verbs {
			needed = append(needed, authorizationv1.ResourceAttributes{
				Group: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name, Verb: verb,
			})
		}
	}
	if election := c.Generic.LeaderElection; election.LeaderElect {
		need("coordination.k8s.io", "leases", "", election.ResourceNamespace, "", "create")
		need("coordination.k8s.io", "leases", "", election.ResourceNamespace, election.ResourceName, "get", "update")
	}
	need("", "nodes", "", "", "", "list", "watch")
	if !c.KubeCloudShared.UseServiceAccountCredentials { // else others write
		need("", "nodes", "", "", "", "update")
		need("", "nodes", "status", "", "", "patch")
	}
	return needed
}

// waitForAccess says true once the API server answers and grants everything that
// is needed, and false when ctx is done.
func waitForAccess(ctx context.Context, client kubernetes.Interface, needed []authorizationv1.ResourceAttributes) bool {
	var said string
	var saidAt time.Time
	for start := time.Now(); ; {
		err := checkAccess(ctx, client, needed)
		if err == nil {
			klog.InfoS("API server answers and grants what is needed", "waited", time.Since(start).Round(time.Millisecond))
			return true
		}
		if err.Error() != said || time.Since(saidAt) > remindAfter {
			said, saidAt = err.Error(), time.Now()
			klog.InfoS("Waiting for the API server", "missing", said)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(min(max(time.Since(start)/40, minPause), maxPause)):
		}
	}
}

// checkAccess asks the API server for each permission, stops at the first that is
// missing, and then asks whether it is well: app.Run does so, too, but only once
// a second, and ends the process after ten.
func checkAccess(ctx context.Context, client kubernetes.Interface, needed []authorizationv1.ResourceAttributes) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	for _, attributes := range needed {
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx,
			&authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes},
			}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask for permissions: %w", err)
		}
		if !review.Status.Allowed {
			return fmt.Errorf("permission to %s", describe(attributes))
		}
	}
	if err := client.Discovery().RESTClient().Get().AbsPath("/healthz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("ask for health: %w", err)
	}
	return nil
}

// describe names a permission as an RBAC rule would.
func describe(a authorizationv1.ResourceAttributes) string {
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	if a.Group != "" {
		resource += "." + a.Group
	}
	if a.Namespace != "" {
		resource += " in namespace " + a.Namespace
	}
	return a.Verb + " " + resource
}
