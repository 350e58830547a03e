// Package conformance checks a cloud provider against the contract that upstream's controllers hold it to. It runs the
// real node, node lifecycle, service and route controllers of k8s.io/cloud-provider with the provider, against a real
// API server, scripts what happens in the cloud, and looks at what becomes of Nodes and Services.
//
// Start at [Run], from a test of the provider, and at [Rules], which lists what is asked and why:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, conformance.Options{New: func() (conformance.Cloud, error) {
//			api := newFakeAPI()
//			return conformance.Cloud{Provider: New(api), Add: api.create, Remove: api.delete}, nil
//		}})
//	}
//
// Every rule is a subtest with a provider, a cloud and controllers of its own. What a provider does not offer, or a
// cloud cannot be made to do, is skipped, and the skip names it.
//
// Reads: the binaries of kube-apiserver and etcd that KUBEBUILDER_ASSETS names, unless Options has an API server.
// Writes: Nodes, and Services in the namespace default. It refuses an API server that has Nodes: they could be real.
// Running it twice: every rule removes what it made.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Options say what to check.
type Options struct {
	// New returns the provider over a cloud that is empty and works. Every rule calls it once.
	New func() (Cloud, error)
	// Config is that of an administrator of an API server without Nodes. Where it is nil, one is started.
	Config *rest.Config
	// Only says which rules to check. Default: all of them.
	Only func(Rule) bool
	// Workers is how many Nodes the lifecycle controller looks at together: --concurrent-node-lifecycle-syncs. Default: 1.
	Workers int
	// Patience is how long a rule waits for what should happen. Default: 20 s, for what takes milliseconds.
	Patience time.Duration
}

// Result is the answer to one rule: no error, a NotOffered, or why the provider breaks it.
type Result struct {
	Rule Rule
	Err  error
}

// Rules returns all rules, in the order in which they are checked.
func Rules() []Rule {
	return slices.Concat(initializeRules(), lifecycleRules(), atOnceRules(), faultRules(), loadBalancerRules(), routeRules())
}

// Run checks every rule in a subtest of its name.
func Run(t *testing.T, o Options) {
	t.Helper()
	if o.Config == nil {
		config, err := startPlane(t)
		if err != nil {
			t.Fatal(err)
		}
		o.Config = config
	}
	for _, rule := range o.rules() {
		t.Run(rule.Name, func(t *testing.T) {
			err := rule.checkWith(t.Context(), o)
			var missing NotOffered
			switch {
			case errors.As(err, &missing):
				t.Skip(missing)
			case err != nil:
				t.Errorf("%v\n%s", err, rule.Why)
			}
		})
	}
}

// Check does what Run does without a testing.T, and returns the results in the order of Rules. Options.Config is
// required.
func Check(ctx context.Context, o Options) []Result {
	var results []Result
	for _, rule := range o.rules() {
		results = append(results, Result{rule, rule.checkWith(ctx, o)})
	}
	return results
}

func (o Options) rules() []Rule {
	rules := Rules()
	if o.Only == nil {
		return rules
	}
	return slices.DeleteFunc(rules, func(r Rule) bool { return !o.Only(r) })
}

// checkWith checks one rule with a provider and controllers of its own.
func (r Rule) checkWith(ctx context.Context, o Options) error {
	cloud, err := o.New()
	if err != nil {
		return fmt.Errorf("make the provider: %w", err)
	}
	config := rest.CopyConfig(o.Config)
	config.QPS = -1 // limits would only make rules slow
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(nodes.Items) > 0 {
		return fmt.Errorf("the API server has Nodes (%s): want one for tests", nodes.Items[0].Name)
	}
	b := &bed{
		cloud: cloud, client: client, config: config,
		patience: cmp.Or(o.Patience, 20*time.Second), workers: max(1, o.Workers, r.workers),
	}
	err = b.start(ctx)
	if err == nil {
		err = r.check(ctx, b)
	}
	return errors.Join(err, b.stop(ctx))
}
