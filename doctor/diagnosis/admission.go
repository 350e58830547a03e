package diagnosis

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/kubernetes"
)

// Admission looks only at what whoever is about to change Nodes would meet: the webhooks that fail closed, each with
// its endpoints, and kubelets' requests for certificates that nobody has answered. Where a part cannot be seen it is an
// error.
func Admission(ctx context.Context, c kubernetes.Interface) (*Snapshot, error) {
	s := &Snapshot{}
	l := newLooking(s)
	l.admission(ctx, c)
	l.wg.Wait()
	l.webhooks(ctx, c)
	l.wg.Wait()
	var unseen []error
	for i := range s.NotSeen {
		unseen = append(unseen, &s.NotSeen[i])
	}
	if err := errors.Join(unseen...); err != nil {
		return nil, fmt.Errorf("look at what stands before the API server: %w", err)
	}
	return s, nil
}
