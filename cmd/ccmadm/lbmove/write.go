package lbmove

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/retry"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// lookEvery is how often the Services are looked at while the command waits.
const lookEvery = 100 * time.Millisecond

// write sets the annotations: those of OLD first, which have no effect alone. Again says that another user has changed a Service, so
// that the plan is no longer right.
func (m *move) write(ctx context.Context, p *Plan) (again bool, _ error) {
	for _, dry := range []bool{true, false} {
		for _, s := range []*corev1.Service{p.old, p.next} {
			patch, err := p.patchOf(s)
			if err != nil {
				return false, err
			}
			if patch == nil {
				continue
			}
			m.wrote = m.wrote || !dry // also where the answer is lost
			if err = m.patch(ctx, s, patch, dry); err != nil {
				err = fmt.Errorf("annotate Service/%s/%s: %w", s.Namespace, s.Name, err)
				return apierrors.IsConflict(err), p.unwritten(!m.wrote, err)
			}
		}
		if !dry || !m.releaseOld {
			continue
		}
		if err := m.release(ctx, p, dry); err != nil {
			return apierrors.IsConflict(err), p.unwritten(!m.wrote, err)
		}
	}
	return false, nil
}

// unwritten says what is left of a run that ends here.
func (p *Plan) unwritten(unchanged bool, err error) error {
	if unchanged {
		return finding.Errorf("%w; nothing was changed", err)
	}
	return finding.Errorf("%w", err).WithHint("run the same command again, which goes on; %s", p.takeBack())
}

// takeBack says how to end a move that has only its first annotation.
func (p *Plan) takeBack() string {
	return fmt.Sprintf("or kubectl -n %s annotate service %s %s- ends it", p.old.Namespace, p.old.Name, v1alpha1.MoveToAnnotation)
}

func (m *move) patch(ctx context.Context, s *corev1.Service, patch []byte, dry bool) error {
	options := metav1.PatchOptions{FieldManager: v1alpha1.FieldManager}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return retry.Do(ctx, each, m.timeout, nil, func(ctx context.Context) error {
		_, err := m.client.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, options)
		return err
	})
}

// patchOf changes the Service as it was looked at; nil: nothing differs.
func (p *Plan) patchOf(s *corev1.Service) ([]byte, error) {
	annotations := map[string]any{}
	for _, c := range p.Changes {
		if c.Service != s.Namespace+"/"+s.Name {
			continue
		}
		annotations[c.Annotation] = c.After
		if c.After == "" {
			annotations[c.Annotation] = nil
		}
	}
	if len(annotations) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": s.ResourceVersion, "annotations": annotations}})
}

// follow waits until the address has moved.
func (m *move) follow(ctx context.Context, p *Plan) error {
	m.began(p)
	began := time.Now()
	var next *corev1.Service
	var last error
	for time.Since(began) < m.timeout {
		var old *corev1.Service
		old, next, last = m.look(ctx)
		if last != nil && !retry.Temporary(last) {
			return last
		}
		if last == nil && arrived(p.addresses, old, next) {
			p.State, p.old, p.next = Moved, old, next
			m.moved(p, time.Since(began))
			return m.shown(p, m.finish(ctx, p))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
	}
	p.State = UnderWay
	return m.shown(p, late(p, next, m.timeout, last))
}

func (m *move) look(ctx context.Context) (old, next *corev1.Service, err error) {
	ctx, cancel := context.WithTimeout(ctx, each)
	defer cancel()
	get := func(name types.NamespacedName) *corev1.Service {
		if err != nil {
			return nil
		}
		var s *corev1.Service
		if s, err = m.client.CoreV1().Services(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{}); err != nil {
			err = fmt.Errorf("get Service/%s: %w", name, err)
		}
		return s
	}
	return get(m.old), get(m.next), err
}

// late says what is known of a move that was not in time.
func late(p *Plan, next *corev1.Service, timeout time.Duration, last error) error {
	why := "the cloud-controller-manager has said nothing about it"
	switch {
	case last != nil:
		why = last.Error()
	case next != nil && allocator.Condition(next) != nil && allocator.Condition(next).Status == metav1.ConditionFalse:
		c := allocator.Condition(next)
		why = finding.Clean(c.Reason + ": " + c.Message)
	}
	return &finding.Error{
		Code: finding.ExitNotInTime,
		Err:  fmt.Errorf("move %s to Service/%s: not done after %s: %s", strings.Join(p.Addresses, ", "), p.New, timeout, why),
		Hint: "ccmadm status shows whether the cloud-controller-manager runs, and ccmadm lb why " + p.New + " what keeps the address; the same " +
			"command goes on waiting",
	}
}

// releases reports whether OLD is to lose the need of an address, and has it yet.
func (m *move) releases(p *Plan) bool {
	return m.releaseOld && p.State == Moved && p.old.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// finish takes the need of an address from OLD, if that was asked for; a dry run only asks the API server whether it may. OLD is as it
// was when the address had moved: who has moved it back since needs it.
func (m *move) finish(ctx context.Context, p *Plan) error {
	if !m.releases(p) {
		return nil
	}
	err := m.release(ctx, p, m.dryRun)
	for attempt := 1; apierrors.IsConflict(err) && attempt < attempts; attempt++ {
		old, next, lookErr := m.look(ctx)
		switch {
		case lookErr != nil:
			err = lookErr
		case !arrived(p.addresses, old, next):
			return finding.Errorf("%s is no longer of Service/%s, so Service/%s was not changed", strings.Join(p.Addresses, ", "), p.New, p.Old).
				WithHint("ccmadm lb why %s shows who has the address", p.New)
		default:
			p.old = old
			err = m.release(ctx, p, m.dryRun)
		}
	}
	switch {
	case err != nil && m.dryRun:
		return finding.Errorf("%w; nothing was changed", err)
	case err != nil:
		return finding.Errorf("%w", err).
			WithHint("the address has moved; run the same command again for the rest")
	case m.dryRun:
		note := "Service/" + p.Old + " would become type ClusterIP"
		if left := allocator.Earlier(p.old, true); len(left) > 0 {
			note += ", and lose " + join(left)
		}
		p.Notes = append(p.Notes, note)
		return nil
	}
	p.Notes = append(p.Notes, "Service/"+p.Old+" is of type ClusterIP now, without an address")
	return nil
}

// release changes the type of OLD, as it was looked at. The API server clears the fields of load balancers that a ClusterIP may not have,
// except for the list of clients in its two forms, which it refuses.
func (m *move) release(ctx context.Context, p *Plan, dry bool) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": p.old.ResourceVersion,
			"annotations":     map[string]any{corev1.AnnotationLoadBalancerSourceRangesKey: nil},
		},
		"spec": map[string]any{"type": corev1.ServiceTypeClusterIP, "loadBalancerSourceRanges": nil},
	})
	if err == nil {
		err = m.patch(ctx, p.old, patch, dry)
	}
	if err != nil {
		return fmt.Errorf("change Service/%s to type ClusterIP: %w", p.Old, err)
	}
	return nil
}
