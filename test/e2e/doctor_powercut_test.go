package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
)

// TestDoctorPowerCut: the power of a machine is cut. Kubernetes calls its Node Ready for 40 to 50 s more; the doctor names it as soon as its
// kubelet has missed a heartbeat, of which one comes every 10 s, and says that it does not answer. It names nothing else.
func TestDoctorPowerCut(t *testing.T) {
	t.Parallel()
	l := up(t, "powercut", 1, 2)
	l.must(t, "cp1", ccmadmInit)
	join := l.joinCommand(t)
	for _, w := range []string{"w1", "w2"} {
		l.must(t, w, join)
	}
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w2")
	doctor := &library{lab: l}
	eventually(t, 2*time.Minute, "nothing is wrong", func() bool { return len(doctor.roots(t)) == 0 })

	l.run(t, "kill", "--name", l.name, "w1")
	cut := time.Now()
	var named []cause
	eventually(t, 35*time.Second, "the doctor names w1", func() bool {
		named = doctor.roots(t)
		return slices.ContainsFunc(named, func(c cause) bool { return c.ID == finding.KubeletSilent && c.Object == "Node/w1" })
	})
	took := time.Since(cut)
	t.Logf("named after %.0f s: %+v", took.Seconds(), named)
	if len(named) != 1 || !strings.Contains(named[0].Message, "does not answer the API server: ") {
		t.Errorf("the doctor says %+v", named)
	}
}
