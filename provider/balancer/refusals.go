package balancer

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// refusal is a Service that the API server did not let us patch, and when it is asked again.
type refusal struct {
	version string // of the Service
	pause   time.Duration
	until   time.Time
}

// refusals are by UID of the Service. A webhook that refuses one Service refuses it in each pass: without a pause of
// its own, a thousand of them would be patched whenever something has changed anywhere.
type refusals map[types.UID]refusal

// rests says whether the Service is left alone for now. One that has changed is another question.
func (r refusals) rests(now time.Time, s *corev1.Service) bool {
	before, there := r[s.UID]
	return there && before.version == s.ResourceVersion && now.Before(before.until)
}

// note takes the outcome of a patch.
func (r refusals) note(now time.Time, s *corev1.Service, err error) {
	if !refuses(err) {
		delete(r, s.UID)
		return
	}
	pause := minRetry
	if before := r[s.UID]; before.version == s.ResourceVersion {
		pause = min(max(minRetry, 2*before.pause), maxRetry)
	}
	r[s.UID] = refusal{version: s.ResourceVersion, pause: pause, until: now.Add(pause)}
}

// refuses says whether the API server has answered that this is not to be. One that is away, or that has too much to
// do, says nothing about the object.
func refuses(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) &&
		!apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err) &&
		!apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err)
}

// namedErrors are as many as one line of the log has room for.
const namedErrors = 3

// few joins the first errors, and says how many more there are.
func few(errs []error) error {
	more := len(errs) - namedErrors
	if more <= 0 {
		return errors.Join(errs...)
	}
	return fmt.Errorf("%w\nand %d more", errors.Join(errs[:namedErrors]...), more)
}
