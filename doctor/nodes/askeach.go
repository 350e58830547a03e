package nodes

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// kubeletsAtOnce is how many kubelets are asked at a time. Each question goes through the API server, and one that
// hangs has its slot for as long as flagsTimeout.
const kubeletsAtOnce = 50

// AskEach asks for each node, many at a time, and returns the answers in the order of the nodes. Behind the end of ctx
// none waits.
func AskEach[T any](ctx context.Context, nodes []string, ask func(ctx context.Context, node string) T) []T {
	answers := make([]T, len(nodes))
	var all errgroup.Group
	all.SetLimit(kubeletsAtOnce)
	for i, node := range nodes {
		all.Go(func() error {
			answers[i] = ask(ctx, node)
			return nil
		})
	}
	_ = all.Wait() // none returns an error
	return answers
}
