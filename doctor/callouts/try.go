package callouts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
)

const (
	// patience is for how long one request may wait. A webhook may be slow once, when it starts or has to ask others: it is asked again.
	patience = 5 * time.Second
	// mostTries bounds the requests, atOnce how many are sent at a time.
	mostTries, atOnce = 16, 8
)

// answer is what came of a request.
type answer struct {
	err error
	// hung says that there was none in time, and twice that the second request got none either.
	hung, twice bool
}

// Try asks, as dry runs, for writes about which the API server asks webhooks, and for lists whose objects are converted. The error
// says that something could not be asked.
func (c *Collector) Try(ctx context.Context, client rest.Interface, node string) error {
	tries, left := c.tries(node)
	answers := make([]answer, len(tries))
	lasts := cmp.Or(c.patience, patience)
	each(len(tries), func(i int) { answers[i] = tries[i].ask(ctx, client, lasts) })
	if slices.ContainsFunc(answers, func(a answer) bool { return a.hung }) {
		if !serves(ctx, client) {
			return fmt.Errorf("the API server does not answer other requests either: %w", context.DeadlineExceeded)
		}
		each(len(tries), func(i int) {
			if !answers[i].hung || ctx.Err() != nil {
				return
			}
			second := tries[i].ask(ctx, client, lasts)
			if second.err != nil && ctx.Err() != nil {
				return // the first answer is all there is
			}
			answers[i] = second
			answers[i].twice = second.hung
		})
	}
	unknown := c.conclude(tries, answers)
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

// serves says that the API server answers what no webhook is asked about, and for which it has to ask etcd.
func serves(ctx context.Context, client rest.Interface) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := client.Get().AbsPath("/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt").MaxRetries(0).DoRaw(ctx)
	return err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
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
	err := request.MaxRetries(0).Do(bounded).Error() // 429 is an answer
	hung := err != nil && ctx.Err() == nil && (errors.Is(bounded.Err(), context.DeadlineExceeded) || apierrors.IsTimeout(err))
	return answer{err: err, hung: hung}
}

// The words of the API server: k8s.io/apiserver pkg/admission/plugin/webhook/errors, k8s.io/apiextensions-apiserver
// pkg/apiserver/conversion.
var (
	failedCall  = regexp.MustCompile(`failed calling webhook "([^"]+)": (?:failed to call webhook: )?(.*)`)
	quota       = regexp.MustCompile(`(?:exceeded|failed) quota: `)
	denial      = regexp.MustCompile(`admission webhook "([^"]+)" denied the request`)
	failedToCon = regexp.MustCompile(`conversion webhook for (?:[^,]*, Kind=\S*|\S+) (?:failed[:,]? )?(.+)`)
	// notCalled is how a request to a webhook fails, whatever it is about.
	notCalled = regexp.MustCompile(`^Post "`)
)

// conclude says of each callout what the requests have shown. Of several about which one request was, and which did not answer, those
// that have answered another are left out; if that leaves several, it is not known which.
func (c *Collector) conclude(tries []try, answers []answer) error {
	answered := map[*hook]bool{}
	var unknown error
	for i, a := range answers {
		switch {
		case a.err == nil, byQuota(a.err):
			for _, h := range tries[i].asked {
				answered[h] = answered[h] || tries[i].surely(h)
			}
		case a.hung:
		case tries[i].refused(a.err, answered):
		case apierrors.IsNotFound(a.err), apierrors.IsInvalid(a.err): // what was to be changed is gone, or another rule stands before
		default:
			unknown = a.err
		}
	}
	for _, proven := range []bool{true, false} {
		for i, a := range answers {
			if a.hung {
				tries[i].hangs(answered, proven, a.twice)
			}
		}
	}
	return unknown
}

// byQuota says that a request was refused because of a quota, which the API server checks after all webhooks.
func byQuota(err error) bool { return apierrors.IsForbidden(err) && quota.MatchString(err.Error()) }

// hangs says of a request without an answer which webhook is why: where proven, only if no other can be.
func (t *try) hangs(answered map[*hook]bool, proven, twice bool) {
	why := "a request got no answer within 5 s: " + t.what
	if twice {
		why = "two requests got no answer within 5 s each: " + t.what
	}
	for _, c := range t.converts {
		c.Fails = cmp.Or(c.Fails, why)
	}
	if t.converts != nil {
		return
	}
	suspects := slices.DeleteFunc(slices.Clone(t.asked), func(h *hook) bool { return answered[h] })
	if len(suspects) > 1 {
		if proven || slices.ContainsFunc(suspects, func(h *hook) bool { return h.Fails != "" }) {
			return
		}
		why += ", about which " + finding.Count(len(suspects), "webhook") + " are asked"
	}
	for _, h := range suspects {
		h.Fails = cmp.Or(h.Fails, why)
	}
}

// refused keeps who has refused a request, and why. False: it was none of those that were to be asked.
func (t *try) refused(err error, answered map[*hook]bool) bool {
	text := err.Error()
	if m := failedToCon.FindStringSubmatch(text); m != nil && t.converts != nil {
		of := t.converts
		if !notCalled.MatchString(m[1]) {
			of = of[:1] // it answers, and about objects of this kind alone
		}
		for _, c := range of {
			c.Fails = cmp.Or(c.Fails, t.what+": "+finding.Clean(redact.Text(m[1])))
		}
		return true
	}
	if m := denial.FindStringSubmatch(text); m != nil {
		for _, h := range t.asked {
			if h.Name == m[1] {
				answered[h] = true
			}
		}
		return true
	}
	m := failedCall.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	for _, h := range t.asked {
		if h.Name == m[1] && h.Fails == "" {
			h.Fails = t.what + ": " + finding.Clean(redact.Text(m[2]))
			return true
		}
	}
	return true
}
