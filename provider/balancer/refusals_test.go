package balancer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRefusals(t *testing.T) {
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusBadRequest, Message: "denied"}}
	old := &corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: "1", ResourceVersion: "1"}}
	edited := &corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: "1", ResourceVersion: "2"}}
	r, now := refusals{}, start
	for _, want := range []int{1, 2, 4, 8, 16, 30, 30} {
		r.note(now, old, fmt.Errorf("patch: %w", denied))
		pause := time.Duration(want) * time.Second
		if !r.rests(now.Add(pause-1), old) || r.rests(now.Add(pause+time.Second), old) {
			t.Errorf("it rests for %+v, want %s", r, pause)
		}
		now = now.Add(pause + time.Second)
	}
	r.note(now, old, denied)
	if r.rests(now, edited) {
		t.Error("one that was edited rests")
	}
	if r.note(now, edited, denied); r.rests(now.Add(2*time.Second), edited) {
		t.Error("one that was edited does not begin anew")
	}
	for _, err := range []error{
		nil, errors.New("connection refused"), apierrors.NewServiceUnavailable("starting"),
		apierrors.NewConflict(schema.GroupResource{}, "a", nil), apierrors.NewTooManyRequests("busy", 1),
	} {
		r.note(now, old, denied)
		if r.note(now, old, err); r.rests(now, old) {
			t.Errorf("it rests after %v", err)
		}
	}
}

func TestFew(t *testing.T) {
	var errs []error
	for n := range 1000 {
		errs = append(errs, fmt.Errorf("patch Service/default/s%d: denied", n))
	}
	text := few(errs).Error()
	if !strings.HasSuffix(text, "s2: denied\nand 997 more") || strings.Contains(text, "s3:") {
		t.Error(text)
	}
	if err := few(errs[:3]); strings.Contains(err.Error(), "more") || few(nil) != nil {
		t.Error(err)
	}
}
