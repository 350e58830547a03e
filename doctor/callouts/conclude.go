package callouts

import (
	"cmp"
	"regexp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
)

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
