package balancer

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// refusal is a Service that the API server did not let us patch, and when it is asked again.
type refusal struct {
	version string // of the Service
	pause   time.Duration
	until   time.Time
	// withdrawal is the patch that would have taken addresses from its status, and was refused, too. Another one does not rest.
	withdrawal string
}

// refusals are by UID of the Service. A webhook that refuses one Service refuses it in each pass: without a pause of
// its own, a thousand of them would be patched whenever something has changed anywhere.
type refusals map[types.UID]refusal

// rests reports whether the Service is left alone for now. One that has changed is another question.
func (r refusals) rests(now time.Time, s *corev1.Service) bool {
	before, there := r[s.UID]
	return there && before.version == s.ResourceVersion && now.Before(before.until)
}

// note takes the result of a patch.
func (r refusals) note(now time.Time, s *corev1.Service, err error) {
	if !objects.Refused(err) {
		delete(r, s.UID)
		return
	}
	pause := minRetry
	if before := r[s.UID]; before.version == s.ResourceVersion {
		pause = min(max(minRetry, 2*before.pause), maxRetry)
	}
	until := now.Add(pause + time.Second).Truncate(time.Second) // those of a second come together, not one pass each
	r[s.UID] = refusal{version: s.ResourceVersion, pause: pause, until: until}
}

// noteWithdrawal notes that the API server has refused to take addresses from the status of a Service that rests.
func (r refusals) noteWithdrawal(s *corev1.Service, patch []byte) {
	if last, there := r[s.UID]; there {
		last.withdrawal = string(patch)
		r[s.UID] = last
	}
}

// withdrawalRests reports whether the Service rests, and this very withdrawal was refused, too.
func (r refusals) withdrawalRests(now time.Time, s *corev1.Service, patch []byte) bool {
	return r.rests(now, s) && r[s.UID].withdrawal == string(patch)
}

// few joins the first errors, and says how many more there are.
func few(errs []error) error {
	more := len(errs) - allocator.NamedErrors
	if more <= 0 {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%w\nand %d more", errors.Join(errs[:allocator.NamedErrors]...), more)
}
