package agent

import (
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

const (
	// announcementsPause is the longest time between two reports of announcements that change all the time. At level BGP a thousand
	// addresses are 60 kB, and all agents write them at once.
	announcementsPause = time.Second
	// pausePerAnnouncement is what each of them adds to the time.
	pausePerAnnouncement = 2 * time.Millisecond
	// apartFails is how long announcements cannot be written apart before they are in the NodeAgent.
	apartFails = 3 * time.Second
)

// apart reports what its Node announces in an object that the manager alone watches.
type apart struct {
	*ownObject[*v1alpha1.NodeAnnouncements]
	// ready is the period of the reader in which the API server got the object; 0: in none.
	ready atomic.Int64
	// pruned is the period in which the CustomResourceDefinition of NodeAgent was of an earlier release, and lost that announcements are
	// apart.
	pruned atomic.Int64
}

// newApart makes it. While a manager watches it writes what the sources say; changed is called when the NodeAgent may leave out
// announcements, or may no longer.
func newApart(client *objects.Client, node string, nodes cache.SharedIndexInformer, r *reader, sources func(*v1alpha1.NodeAgentStatus),
	changed func(),
) (*apart, error) {
	own, err := newOwnObject[*v1alpha1.NodeAnnouncements, *v1alpha1.NodeAnnouncementsList](node, nodes, &v1alpha1.NodeAnnouncements{},
		client.NodeAnnouncements)
	if err != nil {
		return nil, err
	}
	a := &apart{ownObject: own}
	var period int64      // of the object that is being written
	var failing time.Time // since when it could not be
	own.current = func() (*v1alpha1.NodeAnnouncements, bool) {
		if period = r.period(time.Now()); period == 0 {
			return nil, false
		}
		var s v1alpha1.NodeAgentStatus
		sources(&s)
		return &v1alpha1.NodeAnnouncements{
			RenewTime: metav1.NowMicro(), Announced: int32(len(s.Announcements)), Announcements: s.Announcements, Sessions: s.Sessions,
		}, true
	}
	own.same = func(a, b *v1alpha1.NodeAnnouncements) bool {
		return same(a.Announcements, b.Announcements) && same(a.Sessions, b.Sessions)
	}
	own.pause = func(o *v1alpha1.NodeAnnouncements) time.Duration {
		return min(announcementsPause, max(gather, time.Duration(len(o.Announcements))*pausePerAnnouncement))
	}
	own.kept = func(err error) {
		if err == nil {
			failing = time.Time{}
		} else if failing.IsZero() {
			failing = time.Now()
		}
		if err != nil && !objects.Refused(err) && !apierrors.IsNotFound(err) && time.Since(failing) < apartFails {
			return // it has what it had, and is written again
		}
		if err != nil {
			period = 0
		}
		if a.ready.Swap(period) != period {
			changed()
		}
	}
	return a, nil
}

// leave takes out of a report what the object has, if it was written in this period of the reader.
func (a *apart) leave(s *v1alpha1.NodeAgentStatus, period int64) {
	if a == nil || period == 0 || a.ready.Load() != period || a.pruned.Load() == period {
		return
	}
	s.AnnouncementsApart, s.Announcements, s.Announced = true, nil, 0
	s.Sessions = slices.Clone(s.Sessions)
	for i := range s.Sessions {
		s.Sessions[i].Advertised = 0
	}
}

// written compares a report with what the API server has of it. It reports whether announcements are lost.
func (a *apart) written(sent, kept *v1alpha1.NodeAgentStatus, period int64) bool {
	if !sent.AnnouncementsApart || kept.AnnouncementsApart {
		return false
	}
	if a.pruned.Swap(period) == 0 {
		klog.InfoS("The CustomResourceDefinition of NodeAgent is of an earlier release: announcements stay in the NodeAgent")
	}
	return true
}
