package network

import (
	"context"
	"errors"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Patience is how old the last sign of life of an agent may be: there is one every 20 seconds.
const Patience = time.Minute

// Renewals are the times of NodeAgentLeases, by Node.
type Renewals map[string]time.Time

// ReadRenewals reads NodeAgentLeases. A cluster without them is no error: its agents are of an earlier release.
func ReadRenewals(ctx context.Context, c client.Reader) (Renewals, error) {
	var leases v1alpha1.NodeAgentLeaseList
	if err := List(ctx, c, "NodeAgentLeases", &leases); err != nil && !errors.Is(err, ErrUndefined) {
		return nil, err
	}
	r := Renewals{}
	for i := range leases.Items {
		r[leases.Items[i].Name] = leases.Items[i].RenewTime.Time
	}
	return r, nil
}

// addAnnouncements adds to reports what is in NodeAnnouncements.
func addAnnouncements(ctx context.Context, c client.Reader, agents []v1alpha1.NodeAgent) error {
	apart := func(a v1alpha1.NodeAgent) bool { return a.Status.AnnouncementsApart }
	if !slices.ContainsFunc(agents, apart) {
		return nil
	}
	var list v1alpha1.NodeAnnouncementsList
	if err := List(ctx, c, "NodeAnnouncements", &list); err != nil {
		return err
	}
	byName := map[string]*v1alpha1.NodeAnnouncements{}
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	for i := range agents {
		if object := byName[agents[i].Name]; object != nil && apart(agents[i]) {
			agents[i] = *agents[i].With(object)
			if said := object.RenewTime; agents[i].Status.RenewTime.Before(&said) {
				agents[i].Status.RenewTime = said // of two that announce an address, the newer report counts
			}
		}
	}
	return nil
}

// Silence is how long ago an agent has written its report or its lease.
func (r Renewals) Silence(now time.Time, a *v1alpha1.NodeAgent) time.Duration {
	last := a.Status.RenewTime.Time
	if renewed := r[a.Name]; renewed.After(last) {
		last = renewed
	}
	return now.Sub(last)
}
