package callouts

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// The words of the API server: k8s.io/apiserver pkg/admission/plugin/webhook/errors, k8s.io/apiextensions-apiserver
// pkg/apiserver/conversion.
var (
	failedCall  = regexp.MustCompile(`failed calling webhook "([^"]+)": (?:failed to call webhook: )?(.*)`)
	quota       = regexp.MustCompile(`(?:exceeded|failed) quota: `)
	denial      = regexp.MustCompile(`admission webhook "([^"]+)" denied the request`)
	failedToCon = regexp.MustCompile(`conversion webhook for (?:[^,]*, Kind=\S*|\S+) (?:failed[:,]? )?(.+)`)
	// noWay is how the way to a Service fails, whatever is asked there: with which certificate, and at which path, each kind says for itself.
	noWay = regexp.MustCompile(`^Post "[^"]*": (?:dial tcp |service "[^"]*" not found|no endpoints available for service )`)
)

// shown are webhooks that have answered: surely, or perhaps, if they were asked at all.
type shown struct {
	surely, perhaps map[*hook]bool
}

func newShown() *shown { return &shown{surely: map[*hook]bool{}, perhaps: map[*hook]bool{}} }

// take keeps what a request without a refusal shows. A webhook that fails open may have been given up.
func (s *shown) take(t *try, a *answer) {
	for _, h := range t.asked {
		switch {
		case h.givenUp(a.took):
		case t.surely(h):
			s.surely[h] = true
		default:
			s.perhaps[h] = true
		}
	}
}

// givenUp says that after such a time the API server may serve a request without this webhook's answer.
func (h *hook) givenUp(took time.Duration) bool {
	return !h.Closed && took >= time.Duration(h.Timeout)*time.Second
}

// slow says that a request was served, perhaps only since a webhook was given up.
func (t *try) slow(a *answer) bool {
	return a.served() && slices.ContainsFunc(t.asked, func(h *hook) bool { return h.givenUp(a.took) })
}

// conclude says of each callout what the requests have shown. Of several about which one request was, and which did not answer, those
// that have answered another are left out; if that leaves several, it is not known which.
func (c *Collector) conclude(tries []try, answers []answer) error {
	// of a slow request, only those are left out that have answered another in less than the shortest timeout
	answered, quick := newShown(), newShown()
	var unknown error
	for i := range answers {
		switch a := &answers[i]; {
		case a.served():
			answered.take(&tries[i], a)
			if a.took < shortest {
				quick.take(&tries[i], a)
			}
		case a.hung:
		case tries[i].refused(a.err, answered):
		case apierrors.IsNotFound(a.err), apierrors.IsInvalid(a.err): // what was to be changed is gone, or another rule stands before
		default:
			unknown = a.err
		}
	}
	for _, proven := range []bool{true, false} {
		for i := range answers {
			switch a := &answers[i]; {
			case a.hung && tries[i].converts != nil:
				called := tries[i].converts[0]
				called.Fails = cmp.Or(called.Fails, tries[i].unanswered(a))
			case a.hung:
				tries[i].hangs(answered, proven, a)
			case a.twice:
				tries[i].hangs(quick, proven, a)
			}
		}
	}
	share(tries, answers)
	return unknown
}

func (t *try) unanswered(a *answer) string {
	if a.twice {
		return "two requests got no answer within 5 s each: " + t.what
	}
	return "a request got no answer within 5 s: " + t.what
}

// hangs says of a request without an answer, or that was served slowly, which webhook is why: where proven, only if no other can be.
func (t *try) hangs(others *shown, proven bool, a *answer) {
	suspects := without(t.asked, others.surely)
	if len(suspects) > 1 && (proven || slices.ContainsFunc(suspects, func(h *hook) bool { return h.Fails != "" })) {
		return
	}
	about := ""
	if first := without(suspects, others.perhaps); len(suspects) > 1 && len(first) == 1 {
		rest := without(suspects, map[*hook]bool{first[0]: true})
		if !a.hung && !first[0].givenUp(a.took) {
			t.drags(first[0], rest, a)
			return
		}
		about = " (also asked, and answering elsewhere as far as is known: " + nodes.Some(names(rest), 3) + ")"
		suspects = first
	} else if len(suspects) > 1 {
		about = ", about which " + finding.Count(len(suspects), "webhook") + " are asked"
	}
	for _, h := range suspects {
		why := t.unanswered(a)
		if !a.hung {
			why = fmt.Sprintf("two requests were held up for its timeout of %d s each, and served without it: %s", h.Timeout, t.what)
		}
		if h.Fails == "" && (a.hung || h.givenUp(a.took)) {
			h.Fails, h.Unsure = why+about, len(suspects) > 1
		}
	}
}

// drags says of a webhook that has answered a request, since that was served, that it may be why this took so long. The others may not
// have been asked, by their conditions; those that fail open may have been given up. All of it may be slow because the API server is.
func (t *try) drags(h *hook, others []*hook, a *answer) {
	open := slices.DeleteFunc(slices.Clone(others), func(o *hook) bool { return !o.givenUp(a.took) })
	if len(open) == 0 || h.Fails != "" {
		return
	}
	least := slices.MinFunc(open, func(x, y *hook) int { return cmp.Compare(x.Timeout, y.Timeout) }).Timeout
	h.Unsure = true
	h.Fails = fmt.Sprintf("two requests took %d s or longer each, and were served: %s (it answers slowly, or the API server may have "+
		"asked %s as well and did not wait longer, or the API server or etcd is slow)", least, t.what, nodes.Some(names(open), 3))
}

func without(list []*hook, some map[*hook]bool) []*hook {
	return slices.DeleteFunc(slices.Clone(list), func(h *hook) bool { return some[h] })
}

func names(list []*hook) []string {
	var all []string
	for _, h := range list {
		all = append(all, h.Name)
	}
	return all
}

// share says of kinds for which there was no request that another one got no answer of their Service, or that there is no way to it.
func share(tries []try, answers []answer) {
	own := asked(tries, answers)
	for i := range tries {
		t, a := &tries[i], &answers[i]
		if len(t.converts) < 2 || !a.hung && !noWay.MatchString(conversionFailure(a.err)) {
			continue
		}
		first := t.converts[0]
		for _, called := range t.converts[1:] {
			if called.Fails == "" && own[called] == nil {
				called.Fails = "its Service did not answer for " + first.Object + ", and was not asked for this one: " + first.Fails
			}
		}
	}
}

// asked are the conversions for which there was a request of their own, with what came of it.
func asked(tries []try, answers []answer) map[*Callout]*answer {
	own := map[*Callout]*answer{}
	for i := range tries {
		if tries[i].converts != nil {
			own[tries[i].converts[0]] = &answers[i]
		}
	}
	return own
}

// unasked is of how many conversions nothing is known: there was no request of their own, and those for others of their Service were
// for lists without objects, or failed for a reason of that kind.
func unasked(tries []try, answers []answer) int {
	own := asked(tries, answers)
	count := 0
	for i := range tries {
		of := tries[i].converts
		if slices.ContainsFunc(of, func(called *Callout) bool { return own[called] != nil && own[called].items }) {
			continue
		}
		for _, called := range of {
			if own[called] == nil && called.Fails == "" {
				count++
			}
		}
	}
	return count
}

// conversionFailure is why objects could not be converted; empty: that is not what an error is about.
func conversionFailure(err error) string {
	if err == nil {
		return ""
	}
	if m := failedToCon.FindStringSubmatch(err.Error()); m != nil {
		return m[1]
	}
	return ""
}

// refused keeps who has refused a request, and why. False: it was none of those that were to be asked.
func (t *try) refused(err error, answered *shown) bool {
	text := err.Error()
	if why := conversionFailure(err); why != "" && t.converts != nil {
		t.converts[0].Fails = cmp.Or(t.converts[0].Fails, t.what+": "+finding.Clean(redact.Text(why)))
		return true
	}
	if m := denial.FindStringSubmatch(text); m != nil {
		for _, h := range t.asked {
			if h.Name == m[1] {
				answered.surely[h] = true
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
