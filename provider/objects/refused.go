package objects

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Refused reports whether an API server has answered that this is not to be, and will again unless something changes: for
// want of a permission, or since a webhook or a rule is against it. One that is away, ill or busy says nothing about
// the object; nor does one that has another version of it.
func Refused(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	switch code := answer.Status().Code; code {
	case http.StatusNotFound, http.StatusConflict, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	case http.StatusInternalServerError:
		return strings.Contains(answer.Status().Message, "failed calling webhook")
	default:
		return code >= 400 && code < 500
	}
}
