package agent

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// startAgain is the pause after the reports of all were not read.
const startAgain = time.Second

// starts is what binds this agent from its start on. It is read once, and not from a cache: an API server that is cut off
// from etcd still gives informers what it had before.
type starts struct {
	list   func(context.Context, metav1.ListOptions) (*v1alpha1.NodeAgentList, error)
	agents []v1alpha1.NodeAgent
	bound  [][]string
	filled bool
}

// read returns whether it was read before ctx was done.
func (s *starts) read(ctx context.Context) bool {
	for failures := 0; ; failures++ {
		list, err := s.list(ctx, metav1.ListOptions{})
		if err == nil {
			s.agents = list.Items
			return true
		}
		if failures == 0 && ctx.Err() == nil {
			klog.ErrorS(err, "Failed to read the reports of all agents; retrying", "every", startAgain)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(startAgain):
		}
	}
}

// fill gives each view what the first one has that knows who has a vote.
func (s *starts) fill(v *announce.View) {
	if !s.filled && len(v.Members) > 0 {
		v.SetBound(s.agents)
		s.bound, s.filled, s.agents = v.Bound, true, nil
	}
	v.Bound = s.bound
}
