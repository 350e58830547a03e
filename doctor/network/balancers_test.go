package network

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A Node that lost its power has reported last that it announces the address; another one has it since.
func TestBalancers_DeadNode(t *testing.T) {
	wanted := map[v1alpha1.Level][]string{v1alpha1.LevelL2: {"w2"}, v1alpha1.LevelBGP: {"w1", "w2"}}
	for level, want := range wanted {
		s := shop()
		for i := range s.Agents[1:] {
			s.Agents[1+i].Status.Announcements = []v1alpha1.Announcement{{Address: "192.0.2.50", Level: level}}
		}
		s.Agents[1].Status.RenewTime = metav1.NewMicroTime(now.Add(-30 * time.Second))
		if got := s.Balancers()[2].Announcers; !slices.Equal(got, want) {
			t.Errorf("level %s: announced by %v, want %v", level, got, want)
		}
	}
}
