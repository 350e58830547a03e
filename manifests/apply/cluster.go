// Package apply makes a cluster agree with objects, by server-side apply, or shows what that would change.
//
// Start at [Applier]: [Cluster] writes, [Printer] is the dry run. What was applied is listed in the ConfigMap
// ccmadm-inventory, by set, so that what a set loses can be deleted.
//
// Reads: the objects it is given, and the cluster's.
// Writes: those objects as field manager "ccmadm", and that ConfigMap. Only what drifted is written: a second run changes
// nothing. It will not: overwrite a field that somebody else has taken over, which is a [ConflictError], unless force was
// asked for; delete what is not in the list and labelled as ours.
package apply

import (
	"context"
	"fmt"
	"slices"

	"github.com/fluxcd/pkg/ssa"
	"k8s.io/client-go/rest"

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
	// Remove deletes all that was applied, in whatever set, and the inventory last.
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

// Differs tells whether the object was, or would be, another one.
func (c Change) Differs() bool {
	return c.Action != ssa.UnchangedAction.String() && c.Action != ssa.SkippedAction.String()
}

// Cluster is the Applier that writes.
type Cluster struct {
	manager *ssa.ResourceManager
}

var _ Applier = (*Cluster)(nil)

// NewCluster returns an Applier for the cluster. With force, fields that others have taken over are taken back.
// It talks to nobody yet: the API server may come up later.
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
	inv, err := readApplied(ctx, c.manager.Client())
	if err != nil {
		return nil, err
	}
	// Before, so that a run that is cut short leaves nothing that no list has: deletion spares what is not labelled as ours.
	var noted *ssa.ChangeSetEntry
	if union := inv.union(set, objects); len(union) > len(inv) {
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
	stale, err := inv.stale(set, objects)
	if err != nil {
		return changes, err
	}
	deleted, err := c.delete(ctx, stale)
	changes = append(changes, deleted...)
	if err != nil {
		return changes, err
	}
	written, err := c.manager.Apply(ctx, inv.with(set, objects).object(), applyOptions())
	if err != nil {
		return changes, explainConflict(err)
	}
	if noted != nil && written.Action == ssa.UnchangedAction {
		written = noted
	}
	return append(changes, changeOf(*written)), nil
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

// delete leaves alone what does not carry our label: somebody has made it theirs.
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
