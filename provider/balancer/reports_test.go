package balancer

import (
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// What an agent says counts while it reports, by a clock that is minutes away from this machine's, too; and no longer.
func TestReports_ClocksOfAgents(t *testing.T) {
	address := netip.MustParseAddr("192.0.2.1")
	for name, skew := range map[string]time.Duration{"the same": 0, "behind": -2 * time.Minute, "ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			signs := objects.Signs{}
			agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			agent.Status.Announcements = []v1alpha1.Announcement{{Address: address.String(), Level: v1alpha1.LevelL2}}
			now := start
			for range 10 {
				now = now.Add(20 * time.Second)
				agent = agent.DeepCopy()
				agent.Status.RenewTime = metav1.NewMicroTime(now.Add(skew))
				if r := readReports([]*v1alpha1.NodeAgent{agent}, signs, now); !r.announced[address] || len(r.agents) != 1 {
					t.Fatalf("after %s its report counts for nothing: %+v", now.Sub(start), r)
				}
			}
			now = now.Add(objects.LiveTime)
			if r := readReports([]*v1alpha1.NodeAgent{agent}, signs, now); r.announced[address] || r.silent != "a" {
				t.Errorf("it was silent for %s, and its report counts: %+v", objects.LiveTime, r)
			}
			if readReports(nil, signs, now); len(signs) > 0 {
				t.Errorf("its Node is gone, and remembered: %v", signs)
			}
		})
	}
}
