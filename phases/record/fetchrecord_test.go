package record

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
