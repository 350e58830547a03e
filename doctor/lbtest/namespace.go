package lbtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/runlease"
)

const (
	// leaseName is that of the Lease in the namespace.
	leaseName = "ccmadm-lb-test"
	// removalPatience is for all that a run has made.
	removalPatience = 3 * time.Minute
	// servicesPatience is for Services in it: what their finalizers keep does not keep the pods.
	servicesPatience = 2 * time.Minute
)

// labels are on all that a run makes.
func (s *suite) labels() map[string]string {
	return map[string]string{v1alpha1.LBTestLabel: s.id, v1alpha1.ManagedByLabel: v1alpha1.FieldManager}
}

func (s *suite) createOptions() metav1.CreateOptions {
	return metav1.CreateOptions{FieldManager: v1alpha1.FieldManager}
}

// findNamespace returns the namespace, or nil.
func (s *suite) findNamespace(ctx context.Context) (found *corev1.Namespace, err error) {
	err = s.api.do(ctx, "get Namespace/"+s.Namespace, func(ctx context.Context) (err error) {
		found, err = s.client.CoreV1().Namespaces().Get(ctx, s.Namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			found, err = nil, nil
		}
		return err
	})
	return found, err
}

// removeLeftovers removes what a run has left that was killed or kept. It refuses a namespace that no run made, and one of a run that
// is under way.
func (s *suite) removeLeftovers(ctx context.Context) error {
	found, err := s.findNamespace(ctx)
	if err != nil || found == nil {
		return err
	}
	of, ours := found.Labels[v1alpha1.LBTestLabel]
	if !ours || found.Labels[v1alpha1.ManagedByLabel] != v1alpha1.FieldManager {
		return finding.Refusedf("use Namespace/%s: it exists, and no run of this command made it", s.Namespace).
			WithHint("--namespace names another one, that does not exist")
	}
	if found.DeletionTimestamp == nil {
		if err := s.refuseRunning(ctx); err != nil {
			return err
		}
	}
	s.tell("removing what run %s left in namespace %s", finding.Clean(of), s.Namespace)
	limited, cancel := context.WithTimeout(ctx, removalPatience)
	defer cancel()
	if err := s.removeNamespace(limited, found); err != nil {
		return err
	}
	if left, err := s.findNamespace(ctx); err != nil || left != nil {
		if err == nil {
			err = finding.Errorf("remove Namespace/%s of an earlier run: it is still there after %s", s.Namespace, removalPatience).
				WithHint("kubectl get namespace %s -o yaml shows what it waits for", s.Namespace)
		}
		return err
	}
	return nil
}

func (s *suite) runLease() *runlease.Lease {
	return &runlease.Lease{
		Client: s.client, Namespace: s.Namespace, Name: leaseName, Holder: s.Holder, Labels: s.labels(), Lasts: s.silence,
		Ask: func(ctx context.Context, request func(context.Context) error) error {
			return s.api.do(ctx, "use Namespace/"+s.Namespace, request)
		},
		Refuse: func(string) error { return errTaken }, // in a namespace that this run has just made
	}
}

// refuseRunning is the error of another run that renews its Lease, or makes it: it has just made the namespace.
func (s *suite) refuseRunning(ctx context.Context) error {
	s.tell("namespace %s exists: looking for %s whether a run is under way", s.Namespace, s.silence)
	found, alive, err := s.runLease().Watch(ctx)
	if err != nil || !alive {
		return err
	}
	return finding.Refusedf("use Namespace/%s: a run is under way there, by %s", s.Namespace, finding.Clean(runlease.Holder(found))).
		WithHint("wait for its end, or --namespace names another one")
}

// createNamespace makes the namespace and the Lease. A namespace that another program made meanwhile is not taken.
func (s *suite) createNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace, Labels: s.labels()}}
	err := s.api.do(ctx, "create Namespace/"+s.Namespace, func(ctx context.Context) error {
		_, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, s.createOptions())
		return err
	})
	if apierrors.IsAlreadyExists(err) {
		found, got := s.findNamespace(ctx)
		if got != nil {
			return got
		}
		if found != nil && found.Labels[v1alpha1.LBTestLabel] == s.id { // the answer to the first try was lost
			err = nil
		}
	}
	if err != nil {
		return err
	}
	s.lease, err = s.runLease().Take(ctx)
	return err
}

// errTaken is why a run ends that another one took for dead, since its Lease was not renewed for too long: the namespace is the other's.
var errTaken = errors.New("the namespace was deleted, or another run has taken it: this one could not renew its Lease for too long")

// create makes an object in the namespace of this run. One that exists was made by a try whose answer was lost.
func (s *suite) create(ctx context.Context, what string, request func(context.Context) error) error {
	return s.api.do(ctx, "create "+what, func(ctx context.Context) error {
		if err := request(ctx); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
}

// renew says that the run is under way, until ctx ends. That the Lease is no more this run's is told.
func (s *suite) renew(ctx context.Context, lost context.CancelCauseFunc) {
	if err := s.runLease().Renew(ctx, s.lease); err != nil {
		lost(errTaken)
	}
}

// remove takes away what this run has made.
func (s *suite) remove(ctx context.Context) error {
	found, err := s.findNamespace(ctx)
	if err == nil && found != nil && found.Labels[v1alpha1.LBTestLabel] == s.id {
		err = s.removeNamespace(ctx, found)
	}
	if err != nil {
		return finding.Errorf("remove what this run made: %w", err).
			WithHint("the next run removes it; or: kubectl delete namespace %s", s.Namespace)
	}
	return nil
}

// removeNamespace deletes Services first, and waits until their addresses are given back, then the namespace with the rest. That ends
// after its pods; one that takes longer than ctx goes on without this program.
func (s *suite) removeNamespace(ctx context.Context, found *corev1.Namespace) error {
	var left []corev1.Service
	limited, cancel := context.WithTimeout(ctx, s.servicesPatience)
	defer cancel()
	kept := s.until(limited, func(ctx context.Context) (bool, error) {
		now, err := s.listServices(ctx)
		if err != nil {
			return false, err // what was seen before stays the reason
		}
		left = now
		for i := range left {
			if left[i].DeletionTimestamp == nil {
				if err := s.deleteService(ctx, left[i].Name); err != nil {
					return false, err
				}
			}
		}
		return len(left) == 0, nil
	})
	if kept != nil && len(left) > 0 {
		kept = fmt.Errorf("wait for the end of Service/%s/%s, which finalizers %v keep: %w", s.Namespace, left[0].Name, left[0].Finalizers, kept)
	}
	// The namespace goes in any case, and its pods with it. Its end is waited for where no Service keeps it.
	only := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(found.UID))}
	err := s.api.do(ctx, "delete Namespace/"+s.Namespace, func(ctx context.Context) error {
		err := s.client.CoreV1().Namespaces().Delete(ctx, s.Namespace, only)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone, or was deleted before
			return nil
		}
		return err
	})
	if err != nil || kept != nil {
		return errors.Join(kept, err)
	}
	var last *corev1.Namespace
	err = s.until(ctx, func(ctx context.Context) (bool, error) {
		now, err := s.findNamespace(ctx)
		if now != nil {
			last = now
		}
		return now == nil || now.UID != found.UID, err
	})
	if err != nil {
		s.tell("namespace %s is deleted, and still there%s; the cluster removes it without this program", s.Namespace, whyThere(last))
	}
	return nil
}

// whyThere is what conditions say of a namespace that does not end.
func whyThere(n *corev1.Namespace) string {
	var text strings.Builder
	if n != nil {
		for _, c := range n.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				fmt.Fprintf(&text, "; condition %s: %s", c.Type, c.Message)
			}
		}
	}
	return text.String()
}

// until repeats a look until it holds, its error, or the end of ctx.
func (s *suite) until(ctx context.Context, holds func(context.Context) (bool, error)) error {
	for {
		if done, err := holds(ctx); done || err != nil {
			return err
		}
		if err := pause(ctx, often); err != nil {
			return err
		}
	}
}
