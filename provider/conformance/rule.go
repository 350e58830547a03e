package conformance

import (
	"context"
	"errors"
)

// Rule is one thing that upstream's controllers rely on.
type Rule struct {
	Name string
	// Why says what happens in a cluster whose provider breaks the rule.
	Why string

	check func(context.Context, *bed) error
	// workers is the least number of Nodes that the lifecycle controller looks at together.
	workers int
}

// hasInstances reports whether there is anything to ask about machines.
func (b *bed) hasInstances() error {
	if _, ok := b.seen.InstancesV2(); ok {
		return nil
	}
	if _, ok := b.seen.Instances(); ok {
		return nil
	}
	return NotOffered{"InstancesV2, nor Instances"}
}

// hasLoadBalancers reports whether the service controller has work.
func (b *bed) hasLoadBalancers() error {
	if _, ok := b.seen.LoadBalancer(); ok {
		return nil
	}
	return NotOffered{"LoadBalancer"}
}

// hasRoutes reports whether the route controller has work.
func (b *bed) hasRoutes() error {
	if _, ok := b.seen.Routes(); ok {
		return nil
	}
	return NotOffered{"Routes"}
}

// needs puts conditions in front of a check: the first that is missing is the answer.
func needs(check func(context.Context, *bed) error, conditions ...func(*bed) error) func(context.Context, *bed) error {
	return func(ctx context.Context, b *bed) error {
		for _, condition := range conditions {
			if err := condition(b); err != nil {
				return err
			}
		}
		return check(ctx, b)
	}
}

// hasV2 is for rules about objects that only InstancesV2 hands over.
func (b *bed) hasV2() error {
	if _, ok := b.seen.InstancesV2(); ok {
		return nil
	}
	return NotOffered{"InstancesV2"}
}

// canRemove is also what tells a cloud that knows its machines from a provider that adopts every Node.
func (b *bed) canRemove() error {
	if b.cloud.Remove == nil {
		return NotOffered{"Cloud.Remove"}
	}
	return nil
}

func (b *bed) canRename() error {
	if b.cloud.Rename == nil {
		return NotOffered{"Cloud.Rename"}
	}
	return nil
}

func (b *bed) canStop() error {
	if b.cloud.Stop == nil || b.cloud.Start == nil {
		return NotOffered{"Cloud.Stop and Cloud.Start"}
	}
	return nil
}

// firstOf calls steps until one of them fails.
func firstOf(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// errUnlike is for answers that should have been alike.
var errUnlike = errors.New("answers differ")
