package conformance

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// lifecycleRules are about machines that have fallen silent: the lifecycle controller asks about no other.
func lifecycleRules() []Rule {
	instances := (*bed).hasInstances
	return []Rule{
		{
			Name:  "removed-machine-loses-its-node",
			Why:   "InstanceExists must say (false, nil) when the machine is gone, or its Node, and pods with volumes, stay for ever.",
			check: needs(removedMachineLosesItsNode, instances, (*bed).canRemove),
		},
		{
			Name: "silent-machine-keeps-its-node",
			Why: "A Node that is NotReady, or has only just joined, is deleted at the first no; its kubelet does not register " +
				"again until it is restarted.",
			check: needs(silentMachineKeepsItsNode, instances),
		},
		{
			Name: "uninitialized-machine-keeps-its-node",
			Why: "A Node that waits for its initialization is NotReady, and its machine may not be listed yet: at a no it is " +
				"deleted before it ever ran a pod.",
			check: needs(uninitializedMachineKeepsItsNode, instances, (*bed).canRemove),
		},
		{
			Name: "foreign-machine-keeps-its-node",
			Why: "A Node of another provider, or from before there was one, is not in this cloud; that says nothing about its " +
				"machine.",
			check: needs(foreignMachineKeepsItsNode, instances),
		},
		{
			Name: "renamed-machine-keeps-its-node",
			Why: "A machine is found by the provider ID of its Node first. By name, a new label in the cloud's console deletes a " +
				"Node.",
			check: needs(renamedMachineKeepsItsNode, instances, (*bed).canRename),
		},
		{
			Name:  "stopped-machine-is-tainted",
			Why:   "Without the taint shutdown, volumes of a machine that is switched off are not detached until an administrator forces it.",
			check: needs(stoppedMachineIsTainted, instances, (*bed).canStop),
		},
		{
			Name:  "running-machine-is-not-tainted",
			Why:   "The taint shutdown on a machine that runs lets volumes be attached twice.",
			check: needs(runningMachineIsNotTainted, instances),
		},
	}
}

func removedMachineLosesItsNode(ctx context.Context, b *bed) error {
	m, err := b.joined(ctx)
	if err != nil {
		return err
	}
	return firstOf(
		func() error { return b.cloud.Remove(m) },
		func() error { return b.says(m, corev1.ConditionUnknown) },
		func() error { return b.gone(ctx, m) },
	)
}

// silentMachineKeepsItsNode looks at a Node that is initialized, and at one that is NotReady before it is.
func silentMachineKeepsItsNode(ctx context.Context, b *bed) error {
	old, err := b.joined(ctx)
	if err != nil {
		return err
	}
	if err := b.says(old, corev1.ConditionUnknown); err != nil {
		return err
	}
	young, err := b.machine()
	if err != nil {
		return err
	}
	if err := b.join(ctx, young, "", func(n *corev1.Node) { n.Status.Conditions = nil }); err != nil {
		return err
	}
	b.settleLifecycle(ctx, old.Name)
	b.settleLifecycle(ctx, young.Name)
	return errors.Join(b.there(ctx, old), b.there(ctx, young))
}

// uninitializedMachineKeepsItsNode has a Node without provider ID, whose machine the cloud does not list yet.
func uninitializedMachineKeepsItsNode(ctx context.Context, b *bed) error {
	m := b.plan()
	if err := b.join(ctx, m, "", func(n *corev1.Node) { n.Status.Conditions = nil }); err != nil {
		return err
	}
	b.settleLifecycle(ctx, m.Name)
	return b.there(ctx, m)
}

// foreignMachineKeepsItsNode has a Node with another program's provider ID, beside one of the provider's own.
func foreignMachineKeepsItsNode(ctx context.Context, b *bed) error {
	if _, err := b.joined(ctx); err != nil {
		return err
	}
	m := b.plan()
	err := b.join(ctx, m, "", func(n *corev1.Node) {
		n.Spec.ProviderID, n.Spec.Taints, n.Status.Conditions = "elsewhere://"+m.UUID, nil, nil
	})
	if err != nil {
		return err
	}
	b.settleLifecycle(ctx, m.Name)
	return b.there(ctx, m)
}

func renamedMachineKeepsItsNode(ctx context.Context, b *bed) error {
	m, err := b.joined(ctx)
	if err != nil {
		return err
	}
	if err := b.cloud.Rename(m, "renamed-"+m.Name); err != nil {
		return err
	}
	if err := b.says(m, corev1.ConditionUnknown); err != nil {
		return err
	}
	b.settleLifecycle(ctx, m.Name)
	return b.there(ctx, m)
}

// stoppedMachineIsTainted switches a machine off and on.
func stoppedMachineIsTainted(ctx context.Context, b *bed) error {
	m, err := b.joined(ctx)
	if err != nil {
		return err
	}
	becomes := func(what string, want bool) error {
		return b.until(ctx, fmt.Sprintf("Node/%s is %s", m.Name, what), func(ctx context.Context) error {
			off, err := b.shutdown(ctx, m)
			if err == nil && off != want {
				err = fmt.Errorf("taint %s: %v", cloudproviderapi.TaintNodeShutdown, off)
			}
			return err
		})
	}
	return firstOf(
		func() error { return b.cloud.Stop(m) },
		func() error { return b.says(m, corev1.ConditionUnknown) },
		func() error { return becomes("tainted as shut down", true) },
		func() error { return b.cloud.Start(m) },
		func() error { return b.says(m, corev1.ConditionTrue) },
		func() error { return becomes("not tainted any more", false) },
	)
}

func runningMachineIsNotTainted(ctx context.Context, b *bed) error {
	m, err := b.joined(ctx)
	if err != nil {
		return err
	}
	if err := b.says(m, corev1.ConditionUnknown); err != nil {
		return err
	}
	b.settleLifecycle(ctx, m.Name)
	off, err := b.shutdown(ctx, m)
	if err == nil && off {
		err = fmt.Errorf("the taint %s is on Node/%s, and its machine runs", cloudproviderapi.TaintNodeShutdown, m.Name)
	}
	return err
}

// shutdown reports whether the Node has the taint of machines that are switched off.
func (b *bed) shutdown(ctx context.Context, m Machine) (bool, error) {
	node, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	return tainted(node, cloudproviderapi.TaintNodeShutdown), nil
}
