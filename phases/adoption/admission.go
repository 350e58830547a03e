package adoption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// refuseAdmission finds webhooks that would refuse each write to a Node, since nobody answers for them, and names what
// else is asked, and which kubelets have asked for a certificate that nobody has given them.
func refuseAdmission(ctx context.Context, env *workflow.Env) error {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return err
	}
	s, err := diagnosis.Admission(ctx, client)
	if err != nil {
		return finding.Refusedf("%w", err).WithHint("nothing was changed")
	}
	var blocked []error
	for _, w := range s.Webhooks {
		guards := slices.DeleteFunc(slices.Clone(w.Guards), func(what string) bool {
			return strings.HasPrefix(what, "services")
		})
		switch {
		case len(guards) == 0:
		case w.Ready == 0:
			blocked = append(blocked, fmt.Errorf("webhook %s of %s is asked before %s are written, fails closed, and its "+
				"Service %s/%s has no endpoint",
				w.Name, w.Object, strings.Join(guards, ", "), w.Namespace, w.Service))
		default:
			env.Sayf("note: webhook %s of %s is asked before %s are written, and fails closed", w.Name, w.Object,
				strings.Join(guards, ", "))
		}
	}
	for i := range s.Requests {
		r := &s.Requests[i]
		env.Sayf("note: the kubelet of Node/%s waits for its serving certificate, and shows neither flags nor logs "+
			"until then: kubectl certificate approve %s, once you know who asks",
			finding.Clean(strings.TrimPrefix(r.Spec.Username, v1alpha1.NodeUserPrefix)), finding.Clean(r.Name))
	}
	if len(blocked) == 0 {
		return nil
	}
	return finding.Refusedf("%w", errors.Join(blocked...)).
		WithHint("start its pods, or delete the webhook configuration until they run; nothing was changed")
}
