package vip

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/changes"
)

const (
	// segmentInterval is that of looks at whether this machine could answer for the address.
	segmentInterval = 100 * time.Millisecond
	// segmentFailsFor is how long it may not be able to: an interface that is made again, or a cable that is moved.
	segmentFailsFor = time.Second
)

// watchSegment looks whether this machine could answer for the address, whichever machine has it, until ctx is done.
func (h *holder) watchSegment(ctx context.Context) {
	for ; ctx.Err() == nil; changes.Sleep(ctx, segmentInterval) {
		h.looked(h.answerable(h.address))
	}
}

// looked takes in what a look has found. One that cannot answer drains: the control planes hear each other by another
// interface, may be, so that no other knows. It begins as one that cannot.
func (h *holder) looked(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.failing = time.Time{}
		if h.cut == nil {
			return
		}
		klog.InfoS("This machine can answer for the address", "interface", h.ifi)
	case h.failing.IsZero():
		h.failing = h.now()
		return
	case h.now().Sub(h.failing) < segmentFailsFor || h.cut != nil && h.cut.Error() == err.Error():
		return
	default:
		klog.ErrorS(err, "This machine cannot answer for the address, and releases it", "interface", h.ifi)
	}
	h.cut = err
	h.set(h.view())
}

// state is what keeps this machine from answering for the address; nil: nothing does.
func (h *holder) state() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cut
}
