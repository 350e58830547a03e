package retry

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestDo plays answers of the API server: each try has one, and the last one comes again.
func TestDo(t *testing.T) {
	down := apierrors.NewServiceUnavailable("no")
	busy := apierrors.NewTooManyRequests("no", 1)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", nil)
	route := &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: &os.SyscallError{Syscall: "connect", Err: syscall.EHOSTUNREACH}}}
	for name, tt := range map[string]struct {
		answers []error
		tries   int
		takes   time.Duration
	}{
		"at once":               {[]error{nil}, 1, 0},
		"overloaded":            {[]error{down, busy, nil}, 3, time.Second},
		"no route for a moment": {[]error{route, nil}, 2, 500 * time.Millisecond},
		"an answer for good":    {[]error{down, forbidden}, 2, 500 * time.Millisecond},
		"longer than patience":  {[]error{down}, 6, 2500 * time.Millisecond},
		"another API server":    {[]error{errors.New("x509: unknown authority")}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries, again, began := 0, 0, time.Now()
				err := Do(t.Context(), time.Second, 2*time.Second, func(error) { again++ }, func(context.Context) error {
					tries++
					return tt.answers[min(tries, len(tt.answers))-1]
				})
				if !errors.Is(err, tt.answers[len(tt.answers)-1]) || tries != tt.tries || again != tries-1 || time.Since(began) != tt.takes {
					t.Errorf("got %v after %d tries and %s, told of %d", err, tries, time.Since(began), again)
				}
			})
		})
	}
}

// TestDo_Ends: a try that is not answered ends after its time; where ctx ends the error is what the API server said before.
func TestDo_Ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		down, tries := apierrors.NewServiceUnavailable("no"), 0
		err := Do(ctx, time.Second, time.Hour, nil, func(ctx context.Context) error {
			if tries++; tries == 3 {
				return down
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) || tries != 5 {
			t.Errorf("got %v after %d tries", err, tries)
		}
		stopped, stop := context.WithCancel(t.Context())
		tries = 0
		err = Do(stopped, time.Second, time.Hour, nil, func(ctx context.Context) error {
			if tries++; tries == 1 {
				return down
			}
			stop()
			<-ctx.Done()
			return ctx.Err()
		})
		if !apierrors.IsServiceUnavailable(err) || tries != 2 {
			t.Errorf("stopped: got %v after %d tries", err, tries)
		}
	})
}
