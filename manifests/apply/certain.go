package apply

import (
	"context"
	"fmt"
	"sync"

	"github.com/fluxcd/cli-utils/pkg/object"
	"github.com/fluxcd/pkg/ssa/utils"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
)

// certain is a client that applies no object which it could not look at before: to the engine every Get that failed
// says that there is none, so that it would apply what is only ever created over what is there. Such it creates.
type certain struct {
	client.Client

	unseen sync.Map // by object: why the last look at it failed
}

func (c *certain) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, obj, opts...)
	if o, is := obj.(*manifests.Object); is {
		id := object.ObjMetadata{Namespace: key.Namespace, Name: key.Name, GroupKind: o.GroupVersionKind().GroupKind()}
		if c.unseen.Delete(id); err != nil && !apierrors.IsNotFound(err) {
			c.unseen.Store(id, err)
		}
	}
	return err
}

func (c *certain) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	o, is := obj.(*manifests.Object)
	if !is || patch.Type() != types.ApplyPatchType {
		return c.Client.Patch(ctx, obj, patch, opts...)
	}
	if why, unseen := c.unseen.Load(object.UnstructuredToObjMetadata(o)); unseen {
		return fmt.Errorf("look at %s: %w", utils.FmtUnstructured(o), why.(error))
	}
	if o.GetAnnotations()[v1alpha1.CreateOnlyAnnotation] != "true" {
		return c.Client.Patch(ctx, obj, patch, opts...)
	}
	var said client.PatchOptions
	said.ApplyOptions(opts)
	return c.Create(ctx, obj, &client.CreateOptions{DryRun: said.DryRun, FieldManager: said.FieldManager})
}
