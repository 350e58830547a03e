package journal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Unfinished returns the newest run that began to change something and did not come to its end, or nil. Runs are in the
// order of Read. A later run that came to its end and has led to a known state makes up for it: of an upgrade, another one
// on that machine; of all others, any apply, adopt, leave, rollback or init. An apply or a rollback that failed by itself
// is finished: it has told what failed, and its causes are the doctor's to find. The rest goes on where it stopped.
//
// A run that is Begun may be under way: see UnderWay.
func Unfinished(runs []Run) *Run {
	settled := map[string]bool{}
	for i := range slices.Backward(runs) {
		r := &runs[i]
		switch kind := r.kind(); {
		case r.State == Done:
			settled[kind] = true
		case !settled[kind] && len(r.Steps) > 0 && (r.State != Failed || r.resumes()):
			return r
		}
	}
	return nil
}

// kind says which runs a run makes up for.
func (r *Run) kind() string {
	if strings.HasPrefix(r.Command, "upgrade ") {
		return "upgrade on " + r.Machine
	}
	return "settings"
}

// resumes tells a command of many steps, which goes on behind those that are done.
func (r *Run) resumes() bool {
	name, _, _ := strings.Cut(r.Command, " ")
	return name == "adopt" || name == "leave" || name == "upgrade"
}

// UnderWay reports whether a run renews its Lease, which is seen within LeaseLasts. No two clocks are compared. Where
// the Lease cannot be read there is an error: the run may be under way.
func UnderWay(ctx context.Context, client kubernetes.Interface, run *Run) (bool, error) {
	if run.State != Begun {
		return false, nil
	}
	leases := client.CoordinationV1().Leases(v1alpha1.Namespace)
	first := ""
	for deadline := time.Now().Add(LeaseLasts); ; {
		found, err := leases.Get(ctx, v1alpha1.RunLeaseName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("ask for %s: %w", leaseObject, err)
		case ptr.Deref(found.Spec.HolderIdentity, "") != run.Holder:
			return false, nil
		case first != "" && found.ResourceVersion != first:
			return true, nil
		case time.Now().After(deadline):
			return false, nil
		}
		first = found.ResourceVersion
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("watch %s: %w", leaseObject, context.Cause(ctx))
		case <-time.After(lookEvery):
		}
	}
}
