package objects

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRefused(t *testing.T) {
	kind := schema.GroupResource{Resource: "services"}
	etcd := metav1.Status{Code: http.StatusInternalServerError, Message: "etcdserver: request timed out"}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewForbidden(kind, "a", errors.New("no")), true},
		{fmt.Errorf("patch: %w", apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "a", nil)), true},
		{apierrors.NewUnauthorized("who?"), true},
		{apierrors.NewInternalError(errors.New(`failed calling webhook "x": connection refused`)), true},
		{apierrors.NewInternalError(errors.New("something else")), false},
		{&apierrors.StatusError{ErrStatus: etcd}, false},
		{apierrors.NewGenericServerResponse(http.StatusBadGateway, "patch", kind, "a", "", 0, true), false},
		{apierrors.NewServiceUnavailable("starting"), false},
		{apierrors.NewTimeoutError("slow", 1), false},
		{apierrors.NewServerTimeout(kind, "patch", 1), false},
		{apierrors.NewTooManyRequests("busy", 1), false},
		{apierrors.NewConflict(kind, "a", nil), false},
		{apierrors.NewNotFound(kind, "a"), false},
		{errors.New("connection refused"), false},
		{nil, false},
	} {
		if got := Refused(tt.err); got != tt.want {
			t.Errorf("%v: got %t", tt.err, got)
		}
	}
}
