package agent

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/changes"
)

// viewed counts views.
type viewed struct{ views atomic.Int32 }

var _ announce.Announcer = (*viewed)(nil)

// Run waits.
func (v *viewed) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Set counts.
func (v *viewed) Set(*announce.View) { v.views.Add(1) }

// Report says nothing.
func (v *viewed) Report(*v1alpha1.NodeAgentStatus) {}

// Drain has nothing.
func (v *viewed) Drain(context.Context) {}

// A user may write an object that matters to a view all the time: that keeps no agent busy.
func TestAnnounceUntil_ChangesWithoutEnd(t *testing.T) {
	c, err := newCaches(&rest.Config{Host: "http://api.invalid"})
	must(t, err)
	changed, poke := changes.New()
	working, stop := context.WithCancel(t.Context())
	ctx, end := context.WithCancel(working)
	group, announcer, ended := &errgroup.Group{}, &viewed{}, make(chan struct{})
	go func() {
		announceUntil(ctx, working, group, "w1", c, []announce.Announcer{announcer}, changed, poke)
		close(ended)
	}()
	start := time.Now()
	for time.Since(start) < 2*time.Second {
		poke()
		time.Sleep(time.Millisecond)
	}
	n, took := announcer.views.Load(), time.Since(start)
	if most := changes.MaxRow + int32(took/changes.MinPause) + 5; n == 0 || n > most {
		t.Errorf("changes for %s made %d views, want %d at most", took, n, most)
	}
	end()
	<-ended
	stop()
	must(t, group.Wait())
}
