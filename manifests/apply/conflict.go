package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	ssaerrors "github.com/fluxcd/pkg/ssa/errors"
	"github.com/fluxcd/pkg/ssa/utils"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConflictError says that another field manager owns fields of an object that is ours. Nothing was written.
type ConflictError struct {
	// Subject is the object.
	Subject string
	// Managers are the other field managers, as the API server knows them.
	Managers []string
	// Fields are the paths in dispute.
	Fields []string
	// Err is what the API server answered.
	Err error
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("apply %s: conflict with %s over %s", e.Subject, strings.Join(e.Managers, ", "), strings.Join(e.Fields, ", "))
}

// Unwrap returns what the API server answered.
func (e *ConflictError) Unwrap() error { return e.Err }

// Hint says how to go on.
func (e *ConflictError) Hint() string {
	return "--dry-run shows the difference, --force takes the fields back"
}

func explainConflict(err error) error {
	var status apierrors.APIStatus
	if !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) || !errors.As(err, &status) {
		return err
	}
	conflict := &ConflictError{Subject: "object", Err: err}
	if dry := new(ssaerrors.DryRunErr); errors.As(err, &dry) {
		conflict.Subject = utils.FmtUnstructured(dry.InvolvedObject())
	}
	for _, cause := range status.Status().Details.Causes {
		manager, _, _ := strings.Cut(strings.TrimPrefix(cause.Message, "conflict with "), " using ")
		if !slices.Contains(conflict.Managers, manager) {
			conflict.Managers = append(conflict.Managers, manager)
		}
		conflict.Fields = append(conflict.Fields, cause.Field)
	}
	return conflict
}
