package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// initializeRules are about the way from a registered Node to one that takes pods.
func initializeRules() []Rule {
	instances := (*bed).hasInstances
	return []Rule{
		{
			Name:  "has-cluster-id",
			Why:   "At HasClusterID false upstream's program ends at once, unless it is told --allow-untagged-cloud.",
			check: hasClusterID,
		},
		{
			Name:  "has-a-name",
			Why:   "ProviderName is how a program finds the provider that --cloud-provider names; events and logs have it, too.",
			check: hasName,
		},
		{
			Name:  "node-is-initialized",
			Why:   "The Node keeps the taint uninitialized, and no pod runs on the machine.",
			check: needs(nodeIsInitialized, instances),
		},
		{
			Name:  "unknown-machine-stays-tainted",
			Why:   "Pods run on a machine that the cloud does not know: no addresses, no zone, and deletion at its first hiccup.",
			check: needs(unknownMachineStaysTainted, instances, (*bed).canRemove),
		},
		{
			Name: "late-machine-is-initialized",
			Why: "Clouds list new machines late. A provider that answers (nil, nil) then is not asked again until the Node " +
				"changes; an error is retried.",
			check: needs(lateMachineIsInitialized, instances),
		},
		{
			Name:  "provided-node-ip",
			Why:   "The address of --node-ip must be among those returned, or the node controller keeps the taint.",
			check: needs(providedNodeIP(1), instances),
		},
		{
			Name: "provided-node-ip-list",
			Why: "--node-ip of a dual-stack machine names two addresses; both must be returned, or the node controller keeps the " +
				"taint.",
			check: needs(providedNodeIP(2), instances),
		},
		{
			Name: "metadata-is-idempotent",
			Why: "Asked twice about a Node, the provider must say the same: the node controller retries until its write goes " +
				"through.",
			check: needs(metadataIsIdempotent, (*bed).hasV2),
		},
		{
			Name: "metadata-is-not-nil",
			Why: "(nil, nil) for an initialized Node makes the node controller panic, and the cloud-controller-manager restarts " +
				"until the provider is corrected.",
			check: needs(metadataIsNotNil, (*bed).hasV2),
		},
		{
			Name: "provider-id-is-unique",
			Why: "Two Nodes of one provider ID are one machine for load balancers and autoscalers, and for the check whether it " +
				"exists.",
			check: needs(providerIDIsUnique, instances),
		},
		{
			Name: "provider-id-stays",
			Why: "The API server refuses to change a provider ID: a provider that comes up with another one cannot find its " +
				"machine any more.",
			check: needs(providerIDStays, (*bed).hasV2),
		},
		{
			Name: "objects-are-not-written-to",
			Why: "The lifecycle and service controllers hand over objects of the informers' caches: what is written there is seen " +
				"by everybody.",
			check: needs(objectsAreNotWrittenTo, (*bed).hasV2),
		},
	}
}

func hasClusterID(_ context.Context, b *bed) error {
	if !b.cloud.Provider.HasClusterID() {
		return errors.New("HasClusterID is false")
	}
	return nil
}

func hasName(_ context.Context, b *bed) error {
	if b.cloud.Provider.ProviderName() == "" {
		return errors.New("ProviderName is empty")
	}
	return nil
}

func nodeIsInitialized(ctx context.Context, b *bed) error {
	m, err := b.joined(ctx)
	if err != nil {
		return err
	}
	// Addresses are written after the taint has gone, and the kubelet's are there until then.
	b.settleMetadata(ctx, m.Name)
	return b.until(ctx, "it has an address", func(ctx context.Context) error {
		return b.hasAddresses(ctx, m, m.Addresses[:1])
	})
}

// hasAddresses reports whether the status of the Node shows these.
func (b *bed) hasAddresses(ctx context.Context, m Machine, want []corev1.NodeAddress) error {
	node, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, address := range want {
		if !slices.ContainsFunc(node.Status.Addresses,
			func(a corev1.NodeAddress) bool { return a == address }) {
			return fmt.Errorf("%s %s is not among the addresses of Node/%s: %v", address.Type, address.Address, m.Name, node.Status.Addresses)
		}
	}
	return nil
}

func unknownMachineStaysTainted(ctx context.Context, b *bed) error {
	m := b.plan()
	if err := b.join(ctx, m, ""); err != nil {
		return err
	}
	b.settleMetadata(ctx, m.Name)
	node, err := b.client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !tainted(node, cloudproviderapi.TaintExternalCloudProvider) {
		return fmt.Errorf("the cloud has no machine for Node/%s, which was initialized with provider ID "+
			"%q", m.Name, node.Spec.ProviderID)
	}
	return nil
}

func lateMachineIsInitialized(ctx context.Context, b *bed) error {
	m := b.plan()
	if err := b.join(ctx, m, ""); err != nil {
		return err
	}
	b.settleMetadata(ctx, m.Name)
	if err := b.add(m); err != nil {
		return err
	}
	_, err := b.initialized(ctx, m)
	return err
}

// providedNodeIP returns the check for so many addresses in --node-ip.
func providedNodeIP(count int) func(context.Context, *bed) error {
	return func(ctx context.Context, b *bed) error {
		m, err := b.machine()
		if err != nil {
			return err
		}
		nodeIP := m.Addresses[0].Address
		if count > 1 {
			nodeIP += "," + m.Addresses[1].Address
		}
		if err := b.join(ctx, m, nodeIP); err != nil {
			return err
		}
		if _, err := b.initialized(ctx, m); err != nil {
			return fmt.Errorf("--node-ip=%s: %w", nodeIP, err)
		}
		b.settleMetadata(ctx, m.Name)
		return b.until(ctx, "it has the addresses of --node-ip="+nodeIP, func(ctx context.Context) error {
			return b.hasAddresses(ctx, m, m.Addresses[:count])
		})
	}
}

func nodeName(m Machine) types.NodeName { return types.NodeName(m.Name) }
