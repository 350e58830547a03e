package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// faultRules are about clouds that do not answer as they should.
func faultRules() []Rule {
	instances := (*bed).hasInstances
	rules := []Rule{
		{
			Name:  "initialized-once-the-cloud-is-back",
			Why:   "During a fault InstanceMetadata must return an error: it is retried, while an empty answer is taken as it is.",
			check: needs(initializedOnceTheCloudIsBack, instances),
		},
		{
			Name:  "fault-is-not-instance-not-found",
			Why:   "Some controllers take InstanceNotFound for a no, and delete the Node; a fault is no answer at all.",
			check: needs(faultIsNotInstanceNotFound, (*bed).hasV2),
		},
		{
			Name: "fault-is-not-shutdown",
			Why: "InstanceShutdown said yes while it could not know: the taint lets volumes be attached twice, on every silent " +
				"Node of an outage.",
			check: needs(faultIsNotShutdown, instances),
		},
		{
			Name: "ends-with-its-context",
			Why: "The lifecycle controller asks about one Node after the other: a call that ignores its context stops it for all " +
				"of them.",
			check: needs(endsWithItsContext, (*bed).hasV2),
		},
	}
	for _, f := range faults() {
		rules = append(rules, Rule{
			Name: "no-deletion-when-" + string(f),
			Why: "InstanceExists said no while it could not know. Every Node that is NotReady at that time is deleted " +
				"(oracle/oci-cloud-controller-manager#434).",
			check: needs(noDeletionWhen(f), instances),
		})
	}
	return rules
}

func initializedOnceTheCloudIsBack(ctx context.Context, b *bed) error {
	m, err := b.machine()
	if err != nil {
		return err
	}
	heal, err := b.anyFault()
	if err != nil {
		return err
	}
	if err := b.join(ctx, m, ""); err != nil {
		return err
	}
	b.settleMetadata(ctx, m.Name)
	node, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	remembered := !tainted(node, cloudproviderapi.TaintExternalCloudProvider)
	if remembered && b.hasV2() != nil {
		return fmt.Errorf("the fault did not keep Node/%s from being initialized", m.Name)
	}
	heal()
	if _, err = b.initialized(ctx, m); err != nil || !remembered {
		return err
	}
	return b.keepsID(ctx, m) // a provider may remember its machines, and not make one up
}

func faultIsNotInstanceNotFound(ctx context.Context, b *bed) error {
	m, err := b.joined(ctx)
	if err != nil {
		return err
	}
	if _, err := b.anyFault(); err != nil {
		return err
	}
	node, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	instances, _ := b.seen.InstancesV2()
	if _, err := instances.InstanceExists(ctx, node); errors.Is(err, cloudprovider.InstanceNotFound) {
		return fmt.Errorf("InstanceExists during a fault: %w", err)
	}
	return nil
}

// faultIsNotShutdown asks the provider itself: upstream does so only where the machine is said to exist, from a cache
// for instance.
func faultIsNotShutdown(ctx context.Context, b *bed) error {
	m, err := b.joined(ctx)
	if err != nil {
		return err
	}
	node, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if _, err := b.anyFault(); err != nil {
		return err
	}
	for _, f := range faults() {
		if f == Slow {
			continue // a call that does not end is the next rule's
		}
		heal, err := b.fault(f)
		if err != nil {
			continue // anyFault has found another one
		}
		off, err := b.askShutdown(ctx, node)
		heal()
		if off && err == nil {
			return fmt.Errorf("ask about Node/%s while the cloud is %s: it is said to be switched off, without an error", m.Name, f)
		}
	}
	return nil
}

// askShutdown asks by whichever interface there is, and not for long.
func (b *bed) askShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if instances, ok := b.seen.InstancesV2(); ok {
		return instances.InstanceShutdown(ctx, node)
	}
	instances, _ := b.seen.Instances()
	return instances.InstanceShutdownByProviderID(ctx, node.Spec.ProviderID)
}

// endsWithItsContext asks a cloud that does not answer.
func endsWithItsContext(ctx context.Context, b *bed) error {
	m, err := b.joined(ctx)
	if err != nil {
		return err
	}
	if _, err := b.fault(Slow); err != nil {
		return err
	}
	node, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	instances, _ := b.seen.InstancesV2()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = instances.InstanceExists(ctx, node) // when it answers counts, not what
	}()
	select {
	case <-answered:
		return nil
	case <-time.After(2 * time.Second):
		return errors.New("InstanceExists is still waiting for the cloud, 2 s after its context has ended")
	}
}

// noDeletionWhen returns the check for one fault: silent Nodes outlive it.
func noDeletionWhen(f Fault) func(context.Context, *bed) error {
	return func(ctx context.Context, b *bed) error {
		m, err := b.joined(ctx)
		if err != nil {
			return err
		}
		heal, err := b.fault(f)
		if err != nil {
			return err
		}
		if err := b.says(m, corev1.ConditionUnknown); err != nil {
			return err
		}
		b.settleLifecycle(ctx, m.Name)
		heal()
		b.settleLifecycle(ctx, m.Name)
		return b.there(ctx, m)
	}
}
