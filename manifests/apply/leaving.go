package apply

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/ssa/utils"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
)

// LeavingError says that an object is being deleted, and not gone yet. What was applied now would go with it.
type LeavingError struct {
	// Subject is the object.
	Subject string
	// Since is when its deletion was asked for.
	Since time.Time
}

func (e *LeavingError) Error() string {
	return fmt.Sprintf("apply %s: it is being deleted since %s", e.Subject, e.Since.UTC().Format(time.RFC3339))
}

// Hint says how to go on.
func (e *LeavingError) Hint() string {
	return "run the same command again when it is gone; the API server may need up to five minutes to delete it"
}

// refuseLeaving asks for definitions, the one kind of ours on which the API server itself has a finalizer. Where that
// meets a storage which it is only setting up, and then a conflict, it looks again with its informer's next resync, five
// minutes later (k8s.io/apiextensions-apiserver v0.36 pkg/controller/finalizer/crd_finalizer.go:120 and :358): a change
// of anything else has it look at once.
func (c *Cluster) refuseLeaving(ctx context.Context, objects []*manifests.Object) error {
	for _, o := range objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		var found metav1.PartialObjectMetadata
		found.SetGroupVersionKind(o.GroupVersionKind())
		err := c.manager.Client().Get(ctx, client.ObjectKeyFromObject(o), &found)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", utils.FmtUnstructured(o), err)
		case found.DeletionTimestamp == nil:
			continue
		}
		change := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AwaitedAnnotation, time.Now().Format(time.RFC3339Nano))
		err = c.manager.Client().Patch(ctx, &found, client.RawPatch(types.MergePatchType, []byte(change)))
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("wait for the end of %s: %w", utils.FmtUnstructured(o), err)
		}
		return &LeavingError{Subject: utils.FmtUnstructured(o), Since: found.DeletionTimestamp.Time}
	}
	return nil
}
