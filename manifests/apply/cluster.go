// Package apply makes a cluster agree with objects, by server-side apply, or shows what that would change.
//
// Start at [Applier]: [Cluster] writes, [Printer] is the dry run. The ConfigMap ccmadm-applied lists the applied objects
// by set, so that objects that a set loses can be deleted.
//
// Reads: the objects it is given, and the cluster's.
// Writes: those objects as field manager "ccmadm", and that ConfigMap; removes ccmadm-inventory, its former name. Only
// what drifted is written: a second run changes nothing. It will not: overwrite a field that another field manager owns,
// which is a [ConflictError], unless force was asked for; delete an object that is not in the list or lacks our label.
package apply

import (
	"context"
	"fmt"
	"slices"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
)

// Set names objects that are applied, and pruned, together. The names are kept in clusters: never change one.
type Set string

// The sets of ccmadm.
const (
	RBAC        Set = "rbac"
	CloudConfig Set = "cloud-config"
	Inventory   Set = "inventory"
	Addon       Set = "addon"
	Record      Set = "record"
	NodeAgent   Set = "node-agent"
)

// Applier makes a cluster agree with objects, or shows what that would change.
type Applier interface {
	// Apply makes the named set consist of exactly these objects. What an earlier run applied under this name and is
	// not among them is deleted, if it still is ours. What has not drifted is not written.
	Apply(ctx context.Context, set Set, objects []*manifests.Object) ([]Change, error)
	// Remove deletes the applied objects of all sets, then the list of them, and the cluster's record last.
	Remove(ctx context.Context) ([]Change, error)
}

// Change is what became of one object, or would become of it.
type Change struct {
	// Subject is Kind/namespace/name, or Kind/name.
	Subject string
	// Action is created, configured, unchanged, deleted, or skipped for what is not ours to delete.
	Action string
	// Conflict is set in a dry run that shows what only force would do.
	Conflict *ConflictError
}

func (c Change) String() string { return c.Subject + " " + c.Action }

// Unchanged tells whether the object is, or in a dry run would stay, as it is.
func (c Change) Unchanged() bool { return c.Action == ssa.UnchangedAction.String() }

// Differs tells whether the object was, or would be, changed.
func (c Change) Differs() bool {
	return c.Action != ssa.UnchangedAction.String() && c.Action != ssa.SkippedAction.String()
}

// Cluster is the Applier that writes.
type Cluster struct {
	manager *ssa.ResourceManager
}

var _ Applier = (*Cluster)(nil)

// NewCluster returns an Applier for the cluster. With force, fields that others have taken over are taken back.
// It sends no request yet: the API server may come up later.
func NewCluster(cfg *rest.Config, force bool) (*Cluster, error) {
	manager, err := newManager(cfg, force)
	if err != nil {
		return nil, err
	}
	return &Cluster{manager: manager}, nil
}

// Apply retries while the API server is coming up.
func (c *Cluster) Apply(ctx context.Context, set Set, objects []*manifests.Object) (changes []Change, err error) {
	err = retry(ctx, func(ctx context.Context) error {
		changes, err = c.apply(ctx, set, objects)
		return err
	})
	return changes, err
}

func (c *Cluster) apply(ctx context.Context, set Set, objects []*manifests.Object) ([]Change, error) {
	if err := c.refuseLeaving(ctx, objects); err != nil {
		return nil, err
	}
	list, former, err := readApplied(ctx, c.manager.Client())
	if err != nil {
		return nil, err
	}
	stale, err := list.stale(ctx, c.manager.Client(), set, objects)
	if err != nil {
		return nil, err
	}
	// Before, so that an interrupted run leaves no object that is in no list: deletion spares what lacks our label.
	var noted *ssa.ChangeSetEntry
	if union := list.union(set, objects); len(union) > len(list) {
		if noted, err = c.manager.Apply(ctx, union.object(), applyOptions()); err != nil {
			return nil, explainConflict(err)
		}
	}
	// A clone, for the engine sorts in place.
	applied, err := c.manager.ApplyAll(ctx, slices.Clone(objects), applyOptions())
	if err != nil {
		return nil, explainConflict(err)
	}
	changes := changesOf(applied)
	deleted, err := c.delete(ctx, stale)
	changes = append(changes, deleted...)
	if err != nil {
		return changes, err
	}
	written, err := c.manager.Apply(ctx, list.with(set, objects).object(), applyOptions())
	if err != nil {
		return changes, explainConflict(err)
	}
	if noted != nil && written.Action == ssa.UnchangedAction {
		written = noted
	}
	changes = append(changes, changeOf(*written))
	if former == nil {
		return changes, nil
	}
	change, err := c.removeFormer(ctx, former)
	return append(changes, change), err
}

// removeFormer deletes the list under its former name as it was read. An older ccmadm may have written it since: then it
// stays, and the next run reads it.
func (c *Cluster) removeFormer(ctx context.Context, former *manifests.Object) (Change, error) {
	change := Change{Subject: utils.FmtUnstructured(former), Action: ssa.DeletedAction.String()}
	version := former.GetResourceVersion()
	err := c.manager.Client().Delete(ctx, former, client.Preconditions{ResourceVersion: &version})
	switch {
	case apierrors.IsConflict(err):
		change.Action = ssa.SkippedAction.String()
	case err != nil && !apierrors.IsNotFound(err):
		change.Action = ssa.UnknownAction.String()
		return change, fmt.Errorf("delete %s: %w", change.Subject, err)
	}
	return change, nil
}

// Remove retries while the API server is coming up. The cluster's record goes last: it is what a removal that was cut
// short is begun again by.
func (c *Cluster) Remove(ctx context.Context) (changes []Change, err error) {
	err = retry(ctx, func(ctx context.Context) error {
		changes, err = c.remove(ctx)
		return err
	})
	return changes, err
}

func (c *Cluster) remove(ctx context.Context) ([]Change, error) {
	all, err := removal(ctx, c.manager.Client())
	if err != nil {
		return nil, err
	}
	return c.delete(ctx, all)
}

// delete leaves alone what does not carry our label: it was taken over.
func (c *Cluster) delete(ctx context.Context, objects []*manifests.Object) ([]Change, error) {
	opts := ssa.DefaultDeleteOptions()
	opts.Inclusions = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager}
	var changes []Change
	for _, o := range objects { // one by one: of several the engine makes one text, which cannot be asked for its cause
		entry, err := c.manager.Delete(ctx, o, opts)
		if err != nil {
			return changes, fmt.Errorf("delete what is not wanted any more: %w", err)
		}
		changes = append(changes, changeOf(*entry))
	}
	return changes, nil
}

func changesOf(set *ssa.ChangeSet) []Change {
	var list []Change
	for _, entry := range set.Entries {
		list = append(list, changeOf(entry))
	}
	return list
}

func changeOf(entry ssa.ChangeSetEntry) Change {
	return Change{Subject: entry.Subject, Action: entry.Action.String()}
}

// applyOptions leave alone what is only ever created.
func applyOptions() ssa.ApplyOptions {
	opts := ssa.DefaultApplyOptions()
	opts.IfNotPresentSelector = createOnly()
	return opts
}

func createOnly() map[string]string { return map[string]string{v1alpha1.CreateOnlyAnnotation: "true"} }
