package objects

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// An agent lives as long as its report changes, whatever its clock says.
func TestSigns_ClocksOfAgents(t *testing.T) {
	start := time.Now()
	for name, skew := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			signs := Signs{}
			agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			write := func(after time.Duration) {
				agent = agent.DeepCopy()
				agent.Status.RenewTime = metav1.NewMicroTime(start.Add(after + skew))
				signs.Take(start.Add(after), agent)
			}
			check := func(after time.Duration, want bool) {
				t.Helper()
				if got := signs.Live(start.Add(after), "a"); got != want {
					t.Errorf("%s later: live: %v, want %v", after, got, want)
				}
			}
			check(0, false)
			write(0)
			check(50*time.Second, true)
			write(55 * time.Second)
			check(110*time.Second, true)
			signs.Take(start.Add(114*time.Second), agent) // a list again: nothing new
			check(116*time.Second, false)
			write(200 * time.Second)
			check(201*time.Second, true)
		})
	}
}
