package manager

import (
	"context"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// forgottenPods are the Nodes with a static pod of the manager that show an API server and have no label of a control
// plane. A kubelet may show any pod: what it shows keeps permissions, and takes nothing.
func forgottenPods(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	names, err := nodes.Unlabelled(ctx, client)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	pods, err := record.ShownPods(ctx, client)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool { return onNode(pods, name) == nil }), nil
}

// RefuseForgotten keeps leave from a cluster in which a static pod of the manager would stay.
func RefuseForgotten(ctx context.Context, client kubernetes.Interface, skip []string) error {
	names, err := forgottenPods(ctx, client)
	if err != nil {
		return finding.Refusedf("look for static pods: %w", err).WithHint("nothing was changed")
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(skip, name) })
	if len(names) == 0 {
		return nil
	}
	return finding.Refusedf("leave: the manager is a static pod on Node/%s, which shows an API server and has no label %s",
		strings.Join(names, ", Node/"), v1alpha1.ControlPlaneLabel).
		WithHint("%s; then run `ccmadm apply` there: it removes the static pod. Where they are workers, --skip %s leaves them. "+
			"Nothing was changed", nodes.UnlabelledHint(names), strings.Join(names, ","))
}

// sayForgotten names control planes that a run in another mode than static pods does not count as such.
func sayForgotten(ctx context.Context, env *workflow.Env, client kubernetes.Interface) error {
	names, err := forgottenPods(ctx, client)
	if err != nil || len(names) == 0 {
		return err
	}
	env.Sayf("warning, the manager's static pod is still on Node/%s, which shows an API server and has no label %s; %s; "+
		"then run `ccmadm apply` there. Its permissions stay", strings.Join(names, ", Node/"), v1alpha1.ControlPlaneLabel,
		nodes.UnlabelledHint(names))
	return nil
}

// SayUnlabelled names control planes whose Node has lost the label.
func SayUnlabelled(ctx context.Context, env *workflow.Env, client kubernetes.Interface) error {
	names, err := nodes.Unlabelled(ctx, client)
	if err != nil || len(names) == 0 {
		return err
	}
	env.Sayf("warning, no label %s on Node/%s; %s", v1alpha1.ControlPlaneLabel, strings.Join(names, ", Node/"),
		nodes.UnlabelledHint(names))
	return nil
}
