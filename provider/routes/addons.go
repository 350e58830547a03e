package routes

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// addOnsKnownFor is how long the answer about DaemonSets holds, and addOnsRetry how long that there was none.
	addOnsKnownFor = time.Minute
	addOnsRetry    = 10 * time.Second
	// addOnsTimeout is for API servers that swallow packets: nothing is repaired meanwhile.
	addOnsTimeout = 2 * time.Second
	// pageSize of their list.
	pageSize = 500
)

// AddOns tells which network add-on there is, by the DaemonSets of the cluster. It lists them when it is asked.
type AddOns struct {
	Client kubernetes.Interface

	mu       sync.Mutex
	owner    string
	known    bool // there was an answer, once
	lookedAt time.Time
	err      error // of the last look
}

// find returns what owns the routes, by an answer no older than age; empty: nothing does. Beside an error is the answer
// before, which known says that there was.
func (a *AddOns) find(ctx context.Context, age time.Duration) (owner string, known bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock() // callers that come at once wait for one answer
	if a.err != nil {
		age = min(age, addOnsRetry)
	}
	if !a.lookedAt.IsZero() && time.Since(a.lookedAt) < age {
		return a.owner, a.known, a.err
	}
	ctx, cancel := context.WithTimeout(ctx, addOnsTimeout)
	defer cancel()
	owner, a.err = a.list(ctx)
	a.lookedAt = time.Now()
	if a.err == nil {
		a.owner, a.known = owner, true
	}
	return a.owner, a.known, a.err
}

func (a *AddOns) list(ctx context.Context) (owner string, err error) {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := a.Client.AppsV1().DaemonSets("").List(ctx, options)
		if err != nil {
			return "", fmt.Errorf("look for network add-ons: %w", err)
		}
		if owner = daemonSetOwner(list.Items); owner != "" || list.Continue == "" {
			return owner, nil
		}
		options.Continue = list.Continue
	}
}
