package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const object = "ConfigMap/" + v1alpha1.Namespace + "/" + v1alpha1.JournalName

const (
	// patience is how long an API server may take to answer: a step may have restarted it.
	patience = 30 * time.Second
	askEvery = 700 * time.Millisecond
)

// store is the journal's ConfigMap.
type store struct {
	client kubernetes.Interface
	known  *corev1.ConfigMap // as it was last read or written; nil: it is to be created
	runs   []Run             // what it says
}

// load reads it anew.
func (s *store) load(ctx context.Context) ([]Run, error) {
	var cm *corev1.ConfigMap
	err := Ask(ctx, func(ctx context.Context) (err error) {
		cm, err = s.client.CoreV1().ConfigMaps(v1alpha1.Namespace).Get(ctx, v1alpha1.JournalName, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		s.known, s.runs = nil, nil
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", object, err)
	}
	runs, err := decode(documentsOf(cm))
	if err != nil {
		return nil, finding.Refusedf("%w", err).
			WithHint("edited by hand, or written by a newer ccmadm: use that one; nothing was changed")
	}
	if cm.Annotations[v1alpha1.JournalDigestAnnotation] != documentsOf(cm).digest() {
		return nil, finding.Refusedf("read %s: it was edited by hand, so its content cannot be trusted", object).
			WithHint("look at it; kubectl -n %s delete configmap %s begins a new one. Nothing was changed",
				v1alpha1.Namespace, v1alpha1.JournalName)
	}
	s.known, s.runs = cm, runs
	return runs, nil
}

// save writes a run in place of what the journal says of it. Where somebody else has written in between, allowed says
// whether the journal is still the caller's.
func (s *store) save(ctx context.Context, run Run, allowed func(context.Context) error) error {
	return Ask(ctx, func(ctx context.Context) error {
		changed := s.put(ctx, run)
		if !apierrors.IsConflict(changed) && !apierrors.IsAlreadyExists(changed) && !apierrors.IsNotFound(changed) {
			return changed
		}
		if err := allowed(ctx); err != nil {
			return err
		}
		if _, err := s.load(ctx); err != nil {
			return err
		}
		return errors.New(changed.Error()) // to be asked again: deleted is no last word here
	})
}

func (s *store) put(ctx context.Context, run Run) error {
	runs := slices.Clone(s.runs)
	i := slices.IndexFunc(runs, func(r Run) bool { return r.ID == run.ID && r.Holder == run.Holder })
	if i < 0 { // the Lease is this run's, so no other one is under way
		runs = append(cutShort(runs), run)
	} else {
		runs[i] = run
	}
	list, err := encode(runs)
	if err != nil {
		return err
	}
	maps := s.client.CoreV1().ConfigMaps(v1alpha1.Namespace)
	var written *corev1.ConfigMap
	if s.known == nil {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: v1alpha1.JournalName}}
		fill(cm, list)
		written, err = maps.Create(ctx, cm, metav1.CreateOptions{FieldManager: v1alpha1.FieldManager})
	} else {
		cm := s.known.DeepCopy()
		fill(cm, list)
		written, err = maps.Update(ctx, cm, metav1.UpdateOptions{FieldManager: v1alpha1.FieldManager})
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", object, err)
	}
	s.known, s.runs = written, runs
	return nil
}

func fill(cm *corev1.ConfigMap, list documents) {
	cm.Data, cm.BinaryData = list.text, list.packed
	metav1.SetMetaDataLabel(&cm.ObjectMeta, v1alpha1.ManagedByLabel, v1alpha1.FieldManager)
	metav1.SetMetaDataAnnotation(&cm.ObjectMeta, v1alpha1.JournalDigestAnnotation, list.digest())
}

// Ask asks again while the answer may become another one. What comes back in the end is the API server's last word.
func Ask(ctx context.Context, request func(context.Context) error) (err error) {
	waitErr := wait.PollUntilContextTimeout(ctx, askEvery, patience, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		last := request(ctx)
		if err == nil || ctx.Err() == nil {
			err = last
		}
		return last == nil || final(last), nil
	})
	if err == nil && waitErr != nil { // the caller's end, before the first question
		err = waitErr
	}
	return err
}

// final says that the same request would be answered in the same way.
func final(err error) bool {
	if _, refused := err.(*finding.Error); refused { //nolint:errorlint // what is made of an answer, not what it wraps
		return true
	}
	status := apierrors.ReasonForError(err)
	switch status {
	case metav1.StatusReasonNotFound, metav1.StatusReasonForbidden, metav1.StatusReasonUnauthorized,
		metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonRequestEntityTooLarge,
		metav1.StatusReasonMethodNotAllowed:
		return true
	}
	return false
}
