// Package retry sends requests to the API server again that it may answer otherwise in a moment. Start at [Do].
package retry

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Do sends a request until its error is nil or not [Temporary], until ctx ends, or until a try fails after patience. Each try has a time
// of its own. The error is the last answer: where ctx ends during a try, that of the try before. Again is told of each error before
// another try; may be nil.
func Do(ctx context.Context, each, patience time.Duration, again func(error), request func(context.Context) error) (last error) {
	for started := time.Now(); ; {
		limited, cancel := context.WithTimeout(ctx, each)
		err := request(limited)
		cancel()
		if err == nil || last == nil || ctx.Err() == nil {
			last = err
		}
		if !Temporary(err) || ctx.Err() != nil || time.Since(started) > patience {
			return last
		}
		if again != nil {
			again(err)
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// Temporary says that the same request may be answered otherwise in a moment: the API server is not there, or is overloaded.
func Temporary(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsTimeout(err) ||
		utilnet.IsProbableEOF(err) || errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsHTTP2ConnectionLost(err) ||
		errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, context.DeadlineExceeded) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsInternalError(err)
}
