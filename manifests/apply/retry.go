package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/klog/v2"
)

const (
	// patience bounds a run whose caller set no deadline.
	patience = time.Minute
	// settling is how long a fresh API server may refuse what it will allow: it makes kube-system and its RBAC only
	// after it has begun to answer. What is being deleted mostly goes in a moment, too.
	settling = 10 * time.Second
)

// retry runs what is safe to run again until it works, the error is one that waiting does not cure, or ctx ends.
// What it returns then is the last answer: "deadline exceeded" does not say why.
func retry(ctx context.Context, run func(context.Context) error) error {
	ctx = klog.NewContext(ctx, logr.Discard()) // what matters comes back as an error
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	var answered time.Time
	start, pause := time.Now(), 50*time.Millisecond
	var last error
	for {
		err := run(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil && last != nil {
			return fmt.Errorf("%w (gave up after %s: %w)", last, time.Since(start).Round(time.Second), context.Cause(ctx))
		}
		switch last = err; {
		case unreachable(err):
			answered = time.Time{}
		case !unsettled(err):
			return err
		case answered.IsZero():
			answered = time.Now()
		case time.Since(answered) > settling:
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(pause*3/2, 500*time.Millisecond)
		}
	}
}

// unreachable says that there is no API server, or that it asks us to come back.
func unreachable(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsTimeout(err) ||
		utilnet.IsProbableEOF(err) || errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsHTTP2ConnectionLost(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// unsettled says that the same request may be answered otherwise in a moment.
func unsettled(err error) bool {
	leaving := new(LeavingError)
	return errors.As(err, &leaving) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) ||
		apierrors.IsInternalError(err) || apierrors.IsAlreadyExists(err) // it has just been created
}
