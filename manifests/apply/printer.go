package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	"github.com/rogpeppe/go-internal/diff"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
)

// Printer is the Applier of a dry run: it prints the difference that each object would make, and writes nothing.
// The API server works out the difference, defaults and admission included. Values of Secrets are masked, and
// so are credentials in other objects.
type Printer struct {
	out            io.Writer
	manager, force *ssa.ResourceManager // nil: no cluster yet
	existing       bool                 // there is one, whether it answers or not
}

var _ Applier = (*Printer)(nil)

// NewPrinter returns an Applier that prints to out. Without a configuration, or if the connection is refused, it takes the
// cluster as empty: that is what a machine looks like before its first control plane.
func NewPrinter(cfg *rest.Config, out io.Writer) (*Printer, error) {
	p := &Printer{out: out}
	if cfg == nil {
		return p, nil
	}
	var err error
	if p.manager, err = newManager(cfg, false); err != nil {
		return nil, err
	}
	p.force, err = newManager(cfg, true)
	return p, err
}

// Existing says that there is a cluster: one that does not answer is not an empty one. With force, conflicts are not
// mentioned.
func (p *Printer) Existing(force bool) {
	p.existing = true
	if force {
		p.manager = p.force
	}
}

// Apply prints what it would change.
func (p *Printer) Apply(ctx context.Context, set Set, objects []*manifests.Object) ([]Change, error) {
	list, former, err := p.applied(ctx)
	if err != nil {
		return nil, err
	}
	var gone []*manifests.Object
	if p.manager != nil {
		if gone, err = list.stale(ctx, p.manager.Client(), set, objects); err != nil {
			return nil, err
		}
	}
	var changes []Change
	for _, o := range append(slices.Clone(objects), list.with(set, objects).object()) {
		change, err := p.show(ctx, o)
		if err != nil {
			return changes, err
		}
		changes = append(changes, change)
	}
	deleted, stays, err := p.deleted(ctx, gone)
	changes = append(append(changes, deleted...), stays...)
	if err == nil && former != nil {
		changes = append(changes, p.showDeleted(former))
	}
	return changes, err
}

// Remove prints what it would delete.
func (p *Printer) Remove(ctx context.Context) ([]Change, error) {
	if _, _, err := p.applied(ctx); err != nil || p.manager == nil {
		return nil, err
	}
	all, err := removal(ctx, p.manager.Client())
	if err != nil {
		return nil, err
	}
	deleted, _, err := p.deleted(ctx, all)
	return deleted, err
}

// applied finds out at the same time whether there is a cluster.
func (p *Printer) applied(ctx context.Context) (list applied, former *manifests.Object, err error) {
	if p.manager == nil {
		return applied{}, nil, nil
	}
	list, former, err = readApplied(ctx, p.manager.Client())
	if utilnet.IsConnectionRefused(err) && !p.existing {
		p.manager = nil
		return applied{}, nil, nil
	}
	return list, former, err
}

func (p *Printer) show(ctx context.Context, o *manifests.Object) (Change, error) {
	change := Change{Subject: utils.FmtUnstructured(o), Action: ssa.CreatedAction.String()}
	live, merged := &manifests.Object{}, o.DeepCopy()
	if p.manager != nil {
		entry, before, after, err := p.diff(ctx, o)
		var conflict *ConflictError
		if err != nil && !errors.As(err, &conflict) {
			return change, err
		}
		change = changeOf(*entry)
		change.Conflict = conflict
		if before != nil {
			live, merged = before, after
		}
	}
	switch change.Action {
	case ssa.CreatedAction.String():
		return change, p.print("create", change.Subject, live, merged)
	case ssa.ConfiguredAction.String():
		return change, p.print("change", change.Subject, live, merged)
	default:
		return change, nil
	}
}

// diff shows what force would do where there is a conflict: this is what one wants to see before using it. The conflict is
// the error then, beside the rest.
func (p *Printer) diff(ctx context.Context, o *manifests.Object) (entry *ssa.ChangeSetEntry, before, after *manifests.Object, err error) {
	opts := ssa.DefaultDiffOptions()
	opts.IfNotPresentSelector = createOnly()
	entry, before, after, err = p.manager.Diff(ctx, o, opts)
	var conflict *ConflictError
	if err = explainConflict(err); errors.As(err, &conflict) {
		fmt.Fprintf(p.out, "[dryrun] only with --force: %s\n", conflict)
		if entry, before, after, err = p.force.Diff(ctx, o, opts); err == nil {
			err = conflict
		}
	}
	return entry, before, after, err
}

func (p *Printer) print(verb, subject string, live, merged *manifests.Object) error {
	if merged.GetKind() == "CustomResourceDefinition" && live.Object == nil { // hundreds of lines that say nothing of this cluster
		_, err := fmt.Fprintf(p.out, "[dryrun] would %s %s\n", verb, subject)
		return err
	}
	if utils.IsSecret(merged) && live.Object == nil { // else the engine has masked both
		if err := ssa.SanitizeUnstructuredData(nil, merged); err != nil {
			return fmt.Errorf("mask %s: %w", subject, err)
		}
	}
	from, before := "/dev/null", []byte(nil)
	var err error
	if live.Object != nil {
		from = subject
		if before, err = text(live); err != nil {
			return err
		}
	}
	after, err := text(merged)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.out, "[dryrun] would %s %s\n%s", verb, subject, redact.Fields(string(diff.Diff(from, before, subject, after))))
	return err
}

// text leaves out what the API server keeps for itself.
func text(o *manifests.Object) ([]byte, error) {
	o = o.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	if utils.IsSecret(o) { // kubectl keeps a copy of the data there
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	}
	return yaml.Marshal(o.Object)
}

// deleted shows what [Cluster] would delete, and returns what stays, since it lacks our label by now. What has gone is in neither.
func (p *Printer) deleted(ctx context.Context, objects []*manifests.Object) (deleted, stays []Change, err error) {
	for _, o := range objects {
		err := p.manager.Client().Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("look for %s: %w", utils.FmtUnstructured(o), err)
		}
		if o.GetLabels()[v1alpha1.ManagedByLabel] == v1alpha1.FieldManager {
			deleted = append(deleted, p.showDeleted(o))
		} else {
			stays = append(stays, Change{Subject: utils.FmtUnstructured(o), Action: ssa.SkippedAction.String()})
		}
	}
	return deleted, stays, nil
}

func (p *Printer) showDeleted(o *manifests.Object) Change {
	subject := utils.FmtUnstructured(o)
	fmt.Fprintf(p.out, "[dryrun] would delete %s\n", subject)
	return Change{Subject: subject, Action: ssa.DeletedAction.String()}
}
