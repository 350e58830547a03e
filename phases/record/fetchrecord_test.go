package record

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A control plane that joins behind the same address knows no token at first.
func TestOnceTokensAreKnown(t *testing.T) {
	asked := 0
	err := onceTokensAreKnown(t.Context(), func(context.Context) error {
		if asked++; asked < 3 {
			return apierrors.NewUnauthorized("a token that it does not know yet")
		}
		return nil
	})
	if err != nil || asked != 3 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*tokenPause)
	defer cancel()
	never := func(context.Context) error { return apierrors.NewUnauthorized("never") }
	if err := onceTokensAreKnown(ctx, never); !apierrors.IsUnauthorized(err) {
		t.Errorf("got %v, want the last answer", err)
	}
}

// An API server that restarts, or is overloaded, is asked again; an answer that stands is not.
func TestOnceTokensAreKnown_NoAnswer(t *testing.T) {
	asked := 0
	err := onceTokensAreKnown(t.Context(), func(context.Context) error {
		switch asked++; asked {
		case 1:
			return fmt.Errorf("read the record: %w", syscall.ECONNREFUSED)
		case 2:
			return apierrors.NewInternalError(errors.New("etcd has no leader"))
		}
		return nil
	})
	if err != nil || asked != 3 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	asked = 0
	err = onceTokensAreKnown(t.Context(), func(context.Context) error {
		asked++
		return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "x")
	})
	if !apierrors.IsNotFound(err) || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}
