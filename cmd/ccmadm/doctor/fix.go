package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// fixManager is who the API server says has made these changes.
const fixManager = "ccmadm-doctor"

// fixAll shows the safe remedies of what was found, asks, and applies them; of Nodes only those that are named, if any
// are. What is left is in the exit status.
func (d *doctor) fixAll(
	ctx context.Context, s workflow.Streams, names []string, snapshot *diagnosis.Snapshot, found *diagnosis.Diagnosis,
) error {
	fixes := found.Fixes(snapshot, names)
	if !found.Wrong() {
		return verdict(found)
	}
	if len(fixes) == 0 {
		fmt.Fprintln(s.Out, "\nno finding has a safe automatic remedy; the remedies are listed above")
		return usage.ErrFound
	}
	fmt.Fprintln(s.Out, "\nsafe remedies:")
	for i, f := range fixes {
		fmt.Fprintf(s.Out, "%3d. %s %s: %s\n     %s\n", i+1, f.ID, f.Object, f.What, f.Command())
	}
	if !d.yes && !workflow.Confirmed(s.In, s.Err, fmt.Sprintf("Apply %d?", len(fixes))) {
		fmt.Fprintln(s.Out, "nothing was changed")
		return usage.ErrFound
	}
	var client kubernetes.Interface
	var errs []error
	for i, f := range fixes {
		var err error
		if f.Patch != nil && client == nil {
			client, err = d.Client(s)
		}
		if err == nil {
			err = applyFix(ctx, client, machine.Host(d.root), &f)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(s.Out, "%3d. done\n", i+1)
	}
	if err := errors.Join(errs...); err != nil {
		return finding.Errorf("%w", err).WithHint("ccmadm doctor shows what is left")
	}
	fmt.Fprintln(s.Out, "ccmadm doctor --watch shows the effect")
	return left(found, fixes)
}

// left is what the fixes leave as exit status: that all is fixed is no sign of health where too little was seen.
func left(found *diagnosis.Diagnosis, fixes []diagnosis.Fix) error {
	if unfixed(found, fixes) > 0 {
		return usage.ErrFound
	}
	return unseen(found)
}

// applyFix does one; commands run as they are, without a shell.
func applyFix(ctx context.Context, c kubernetes.Interface, m *machine.Machine, f *diagnosis.Fix) error {
	for _, args := range f.Run {
		var out bytes.Buffer
		err := m.Runner.Run(ctx, machine.Command{Name: args[0], Args: args[1:], Out: &out, Err: &out, Changes: true})
		if err != nil {
			return fmt.Errorf("run %s: %w: %s", strings.Join(args, " "), err, finding.Clean(strings.TrimSpace(out.String())))
		}
	}
	p := f.Patch
	if p == nil {
		return nil
	}
	o := metav1.PatchOptions{FieldManager: fixManager}
	var sub []string
	if p.Subresource != "" {
		sub = []string{p.Subresource}
	}
	var err error
	switch p.Kind {
	case "deployment":
		_, err = c.AppsV1().Deployments(p.Namespace).Patch(ctx, p.Name, p.Type, p.Data, o, sub...)
	case "daemonset":
		_, err = c.AppsV1().DaemonSets(p.Namespace).Patch(ctx, p.Name, p.Type, p.Data, o, sub...)
	case "node":
		_, err = c.CoreV1().Nodes().Patch(ctx, p.Name, p.Type, p.Data, o, sub...)
	default:
		err = fmt.Errorf("no such kind: %s", p.Kind)
	}
	if err != nil {
		return fmt.Errorf("patch %s %s: %w", p.Kind, finding.Clean(p.Name), err)
	}
	return nil
}

// unfixed counts the causes of which an object has had no remedy.
func unfixed(found *diagnosis.Diagnosis, fixes []diagnosis.Fix) int {
	done := map[string]bool{}
	for _, f := range fixes {
		done[string(f.ID)+f.Object] = true
	}
	left := 0
	for _, c := range found.Causes {
		if c.Severity == finding.SeverityNote {
			continue
		}
		for _, object := range c.Objects {
			if !done[string(c.ID)+object] {
				left++
				break
			}
		}
	}
	return left
}
