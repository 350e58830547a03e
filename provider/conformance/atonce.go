package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// atOnce is how many Nodes the lifecycle controller looks at together in the rule about that: its flag
// --concurrent-node-lifecycle-syncs, which is 1 unless an administrator sets it.
const atOnce = 4

// atOnceRules are about a lifecycle controller with several workers, k8s.io/cloud-provider 0.37 and newer.
func atOnceRules() []Rule {
	return []Rule{{
		Name: "machines-are-asked-about-at-once",
		Why: "With --concurrent-node-lifecycle-syncs above 1, InstanceExists, InstanceShutdown and InstanceMetadata are called for " +
			"several Nodes at once. A provider that mixes up the answers deletes a Node that is there; one that blocks deletes none.",
		check:   needs(machinesAreAskedAboutAtOnce, (*bed).hasV2),
		workers: atOnce,
	}}
}

// machinesAreAskedAboutAtOnce asks about Nodes that are healthy, of which the machine of one is switched off, if it can be: about these no
// controller asks, and one that did would spoil what a provider that mixes up its answers says of a Node alone. Then no
// kubelet posts a status.
func machinesAreAskedAboutAtOnce(ctx context.Context, b *bed) error {
	var machines []Machine
	for range atOnce {
		m, err := b.joined(ctx)
		if err != nil {
			return err
		}
		machines = append(machines, m)
	}
	if b.canStop() == nil {
		if err := b.cloud.Stop(machines[0]); err != nil {
			return err
		}
	}
	for range 3 {
		if err := b.answersAlike(ctx, machines); err != nil {
			return err
		}
	}
	for _, m := range machines {
		if err := b.says(m, corev1.ConditionUnknown); err != nil {
			return err
		}
	}
	for _, m := range machines {
		if err := b.answered(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// answered waits until the lifecycle controller has had two answers about a machine. Whether they are true, other rules ask.
func (b *bed) answered(ctx context.Context, m Machine) error {
	return b.until(ctx, fmt.Sprintf("the lifecycle controller knows how Node/%s is", m.Name), func(context.Context) error {
		for _, method := range []string{"InstanceExists", "InstanceShutdown"} {
			if n := b.seen.succeeded(method, m.Name); n < 2 {
				return fmt.Errorf("%s has answered %d times, while %d Nodes are asked about at once", method, n, atOnce)
			}
		}
		return nil
	})
}

// answersAlike asks about each Node, and about one that has no machine, first one after the other, then all at once, and then one after
// the other again: where a cloud says something else by then, it takes its time to switch a machine off, and nothing is known.
func (b *bed) answersAlike(ctx context.Context, machines []Machine) error {
	instances, _ := b.cloud.Provider.InstancesV2()
	var nodes []*corev1.Node
	for _, m := range machines {
		node, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		nodes = append(nodes, node)
	}
	nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.plan().Name}})
	about := func(node *corev1.Node) string {
		ctx, cancel := context.WithTimeout(ctx, b.patience)
		defer cancel()
		return answersAbout(ctx, instances, node)
	}
	alone := func() (answers []string) {
		for _, node := range nodes {
			answers = append(answers, about(node))
		}
		return answers
	}
	want := alone()
	const rounds = 3
	got := make([]string, rounds*len(nodes))
	var asked sync.WaitGroup
	for i := range got {
		asked.Go(func() { got[i] = about(nodes[i%len(nodes)]) })
	}
	asked.Wait()
	still := alone()
	var unlike []error
	for i, answers := range got {
		if n := i % len(nodes); answers != want[n] && want[n] == still[n] {
			unlike = append(unlike, fmt.Errorf("%w: Node/%s: alone %s; with others at once %s", errUnlike, nodes[n].Name, want[n], answers))
		}
	}
	return errors.Join(unlike...)
}

// answersAbout is what a provider says of a Node, of which it gets a copy. A panic is an answer.
func answersAbout(ctx context.Context, instances cloudprovider.InstancesV2, node *corev1.Node) (answers string) {
	defer func() {
		if cause := recover(); cause != nil {
			answers = fmt.Sprintf("panic: %v", cause)
		}
	}()
	exists, err := instances.InstanceExists(ctx, node.DeepCopy())
	answers = fmt.Sprintf("exists: %v (error: %v)", exists, err != nil)
	if !exists {
		return answers // about such a machine nothing else is asked
	}
	off, err := instances.InstanceShutdown(ctx, node.DeepCopy())
	answers += fmt.Sprintf(", shut down: %v (error: %v)", off, err != nil)
	metadata, err := instances.InstanceMetadata(ctx, node.DeepCopy())
	if metadata != nil {
		answers += ", provider ID: " + metadata.ProviderID
	}
	return answers + fmt.Sprintf(" (error: %v)", err != nil)
}
