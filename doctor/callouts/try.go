package callouts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
)

const (
	// patience is for how long one request may wait. A webhook may be slow once, when it starts or has to ask others: it is asked again.
	patience = 5 * time.Second
	// shortest is the shortest timeout that a webhook can have.
	shortest = time.Second
	// mostTries bounds the requests, atOnce how many are sent at a time.
	mostTries, atOnce = 16, 8
)

// answer is what came of a request.
type answer struct {
	err error
	// took is how long it was waited for.
	took time.Duration
	// hung says that there was none in time, and twice that the other request got none either, or was as slow.
	hung, twice bool
	// items says that the list has an object.
	items bool
}

// served says that the API server has asked all webhooks, and none has refused. A quota is checked after them.
func (a *answer) served() bool {
	return a.err == nil || apierrors.IsForbidden(a.err) && quota.MatchString(a.err.Error())
}

// Try asks, as dry runs, for writes about which the API server asks webhooks, and for lists whose objects are converted. The error
// says that something could not be asked.
func (c *Collector) Try(ctx context.Context, client rest.Interface, node string) error {
	tries, left := c.tries(node)
	answers := make([]answer, len(tries))
	lasts := cmp.Or(c.patience, patience)
	// what no webhook is asked about, and for which the API server has to ask etcd
	read := try{path: "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt"}
	var other answer
	var beside sync.WaitGroup
	beside.Go(func() { other = read.ask(ctx, client, lasts) })
	each(len(tries), func(i int) { answers[i] = tries[i].ask(ctx, client, lasts) })
	beside.Wait()
	serves := other.err == nil || apierrors.IsNotFound(other.err) || apierrors.IsForbidden(other.err)
	if !serves && slices.ContainsFunc(answers, func(a answer) bool { return a.hung }) {
		if err := ctx.Err(); err != nil { // it had no time to answer
			return err
		}
		return fmt.Errorf("the API server does not answer other requests either: %w", context.DeadlineExceeded)
	}
	// where reads take long, too, it is not a webhook that a request waits for
	brisk := serves && other.took < shortest/2
	each(len(tries), func(i int) {
		first := answers[i]
		if again := first.hung || brisk && tries[i].slow(&first); ctx.Err() != nil || !again {
			return
		}
		second := tries[i].ask(ctx, client, lasts)
		if second.err != nil && ctx.Err() != nil {
			return // the first answer is all there is
		}
		second.twice = second.hung && first.hung || brisk && tries[i].slow(&second)
		answers[i] = second
	})
	unknown := c.conclude(tries, answers)
	left += unasked(tries, answers)
	switch {
	case unknown != nil:
		return unknown
	case ctx.Err() != nil:
		return ctx.Err()
	case left > 0:
		return fmt.Errorf("%s not asked: no more than %d requests are sent", finding.Count(left, "webhook"), mostTries)
	}
	return nil
}

func each(n int, do func(int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			do(i)
			<-slots
		})
	}
	wg.Wait()
}

func (t *try) ask(ctx context.Context, client rest.Interface, lasts time.Duration) answer {
	bounded, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	request := client.Get().AbsPath(t.path).Param("limit", "1").SetHeader("Accept", "application/json")
	if t.op != "" {
		body := []byte("{}")
		request = client.Patch(types.MergePatchType)
		if t.body != nil {
			var err error
			if body, err = json.Marshal(t.body); err != nil {
				return answer{err: err}
			}
			request = client.Post().SetHeader("Content-Type", "application/json")
		}
		request = request.AbsPath(t.path).Param("dryRun", metav1.DryRunAll).Body(body)
	}
	began := time.Now()
	result := request.MaxRetries(0).Do(bounded) // 429 is an answer
	a := answer{err: result.Error(), took: time.Since(began)}
	a.hung = a.err != nil && ctx.Err() == nil && (errors.Is(bounded.Err(), context.DeadlineExceeded) || apierrors.IsTimeout(a.err))
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if data, err := result.Raw(); err == nil && t.converts != nil {
		a.items = json.Unmarshal(data, &list) == nil && len(list.Items) > 0
	}
	return a
}
