package agent

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// saying is a source that says something else now and then.
type saying struct {
	mu   sync.Mutex
	says func(*v1alpha1.NodeAgentStatus)
}

func (s *saying) set(says func(*v1alpha1.NodeAgentStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.says = says
}

func (s *saying) add(status *v1alpha1.NodeAgentStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.says != nil {
		s.says(status)
	}
}

// While a manager watches leases the report is written once, and the lease every 20 seconds. When it stops, the report is written before a
// manager that reads nothing else takes the agent for dead, and every 20 seconds from then on.
func TestReporter_LeaseInsteadOfReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, start := &recording{}, time.Now()
		var reads atomic.Bool
		reads.Store(true)
		said := &saying{}
		r := runReporter(t, server, reads.Load, said.add)
		time.Sleep(10 * time.Minute)
		if agents, leases := server.count("nodeagents", start), server.count("nodeagentleases", start); agents > 3 || leases < 28 || leases > 39 {
			t.Errorf("in ten minutes the report was written %d times, want its making and two writes; the lease %d times, want 28 to 39", agents, leases)
		}
		changed := time.Now()
		r.changed() // nothing has
		time.Sleep(time.Second)
		said.set(func(s *v1alpha1.NodeAgentStatus) { s.Gateways = []string{"192.0.2.1"} })
		r.changed()
		time.Sleep(time.Second)
		if n := server.count("nodeagents", changed); n != 1 {
			t.Errorf("a change was reported %d times, want once", n)
		}
		reads.Store(false)
		stopped := time.Now()
		time.Sleep(objects.LiveTime - 20*time.Second)
		if n := server.count("nodeagents", stopped); n == 0 {
			t.Errorf("%s after the last sign of a manager there is no report", time.Since(stopped))
		}
		stopped = time.Now()
		time.Sleep(5 * time.Minute)
		if agents, leases := server.count("nodeagents", stopped), server.count("nodeagentleases", stopped); agents < 14 || leases > 0 {
			t.Errorf("in five minutes without a manager the report was written %d times, want 14 or more; the lease %d times, want none", agents, leases)
		}
		reads.Store(true)
		time.Sleep(30 * time.Second)
		again := time.Now()
		time.Sleep(5 * time.Minute)
		if n := server.count("nodeagents", again); n > 0 {
			t.Errorf("in five minutes with a manager the report was written %d times", n)
		}
	})
}

// Where leases cannot be written, reports are renewed as before.
func TestReporter_LeaseRefused(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusNotFound} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, start := &recording{leases: code}, time.Now()
				runReporter(t, server, func() bool { return true })
				time.Sleep(5 * time.Minute)
				if n := server.count("nodeagents", start); n < 14 || n > 23 {
					t.Errorf("in five minutes the report was written %d times, want 14 to 23", n)
				}
			})
		})
	}
}

// Where only leases cannot be written, for whatever reason, the agent says by its report that it is alive.
func TestReporter_LeaseFails(t *testing.T) {
	for _, code := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusConflict} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &recording{leases: code}
				runReporter(t, server, func() bool { return true })
				for start := time.Now(); time.Since(start) < 5*time.Minute; {
					before := time.Now()
					time.Sleep(objects.LiveTime / 2)
					if server.count("nodeagents", before) == 0 {
						t.Fatalf("no report within %s", objects.LiveTime/2)
					}
				}
			})
		})
	}
}

// A lease that another program has written is read, and renewed again.
func TestReporter_LeaseConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &recording{}
		runReporter(t, server, func() bool { return true })
		time.Sleep(time.Minute)
		server.conflicts.Store(1)
		time.Sleep(time.Minute)
		conflict := time.Now()
		time.Sleep(time.Minute)
		if n := server.count("nodeagentleases", conflict); n < 2 {
			t.Errorf("a minute after a conflict it was renewed %d times in a minute", n)
		}
	})
}

// A report that is owed is written also when the first attempt fails: a lease would not return the vote.
func TestReporter_OwedReport(t *testing.T) {
	for name, owe := range map[string]func(*reporter, *recording){
		"marked as silent": func(r *reporter, _ *recording) { ask(r.marks) },
		"deleted":          func(r *reporter, _ *recording) { ask(r.gone) },
		"overwritten": func(r *reporter, _ *recording) {
			_ = r.all.GetStore().Update(&v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "w1", ResourceVersion: "another"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &recording{}
				r := runReporter(t, server, func() bool { return true })
				time.Sleep(time.Minute)
				owed := time.Now()
				server.failures.Store(1)
				owe(r, server)
				time.Sleep(renewPeriod + 5*time.Second)
				if n := server.count("nodeagents", owed); n != 1 {
					t.Errorf("it was written %d times, want once", n)
				}
				_ = r.all.GetStore().Update(&v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "w1"}})
			})
		})
	}
}

// A conflict that is seen again and again is one report, and the lease is renewed beside it.
func TestReporter_ConflictSeenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, start := &recording{}, time.Now()
		runReporter(t, server, func() bool { return true }, func(s *v1alpha1.NodeAgentStatus) {
			s.Conflicts = []v1alpha1.AddressConflict{{Address: "192.0.2.1", MAC: "02:00:00:00:00:09", Interface: "eth0", Seen: metav1.NowMicro()}}
		})
		time.Sleep(10 * time.Minute)
		if reports, leases := server.count("nodeagents", start), server.count("nodeagentleases", start); reports > 13 || leases < 18 {
			t.Errorf("in ten minutes the report was written %d times, want at most one a minute; the lease %d times, want 18 or more", reports, leases)
		}
	})
}

// Agents that stop hearing a manager at the same moment, or start at the same moment, do not report at the same moment.
func TestReporter_Pause(t *testing.T) {
	now, seen := time.Now(), map[time.Duration]bool{}
	r := &reporter{spoke: now}
	for range 100 {
		pause := r.pause(now)
		if seen[pause] = true; pause > renewPeriod || pause < renewPeriod*3/4 {
			t.Errorf("a pause of %s", pause)
		}
	}
	if len(seen) < 50 {
		t.Errorf("%d different pauses of 100", len(seen))
	}
	if r.spoke = now.Add(-time.Minute); r.pause(now) > 0 {
		t.Errorf("after a minute of changes it waits for %s", r.pause(now))
	}
}

// What is found out only when a report is made, such as a port on which something listens, is written, too.
func TestReporter_LeaseOfAChangedReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &recording{}
		said := &saying{}
		runReporter(t, server, func() bool { return true }, said.add)
		time.Sleep(time.Minute)
		before := time.Now()
		said.set(func(s *v1alpha1.NodeAgentStatus) { s.Listening = []string{"tcp/9100"} })
		time.Sleep(time.Minute)
		if n := server.count("nodeagents", before); n != 1 {
			t.Errorf("the report was written %d times, want once", n)
		}
	})
}

// A vote that the manager took is returned by a report; a lease would not do it.
func TestReporter_MarkedSilent(t *testing.T) {
	r := &reporter{node: "w1", marks: make(chan struct{}, 1)}
	agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
	agent.Annotations = map[string]string{v1alpha1.AgentSilentAnnotation: agent.Status.Renewed()}
	other := agent.DeepCopy()
	other.Name = "w2"
	r.marked(other)
	if len(r.marks) > 0 {
		t.Error("it reports because another one is silent")
	}
	r.marked(agent)
	r.marked(agent) // does not wait
	if len(r.marks) != 1 {
		t.Error("it is marked as silent, and does not report")
	}
}

// One renewal is no sign that a manager goes on; nor does the duration of a Lease bind agents, nor a clock that was set back.
func TestReader_See(t *testing.T) {
	const seconds = 3600
	start := time.Now()
	lease := func(renewed time.Time, lasts int32) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(renewed)), LeaseDurationSeconds: &lasts}}
	}
	at := func(d time.Duration) time.Time { return start.Add(d) }
	type event struct {
		at    time.Duration
		lease *coordinationv1.Lease
	}
	for name, tt := range map[string]struct {
		events []event
		want   time.Duration // of trust, at the last event
	}{
		"no Lease":                    {},
		"one that is found":           {events: []event{{0, lease(at(-time.Hour), seconds)}}},
		"renewed, long after another": {events: []event{{0, lease(at(-time.Hour), seconds)}, {time.Minute, lease(at(time.Minute), seconds)}}},
		"renewed":                     {events: []event{{0, lease(at(0), seconds)}, {5 * time.Second, lease(at(5*time.Second), seconds)}}, want: longestTrust},
		"listed again":                {events: []event{{0, lease(at(0), seconds)}, {5 * time.Second, lease(at(0), seconds)}}},
		"for a short time":            {events: []event{{0, lease(at(0), 10)}, {5 * time.Second, lease(at(5*time.Second), 10)}}, want: 10 * time.Second},
		"for no time":                 {events: []event{{0, lease(at(0), 0)}, {5 * time.Second, lease(at(5*time.Second), 0)}}},
		"without a time":              {events: []event{{0, lease(at(0), seconds)}, {5 * time.Second, &coordinationv1.Lease{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			r, now := &reader{}, start
			for _, e := range tt.events {
				now = at(e.at)
				r.see(now, e.lease)
			}
			if got := max(0, r.trusted(now)); got.Round(time.Millisecond) != tt.want {
				t.Errorf("trusted for %s, want %s", got, tt.want)
			}
			if got := r.trusted(now.Add(-time.Hour)); got > 0 {
				t.Errorf("with a clock that was set back it is trusted for %s", got)
			}
			if got := r.period(now) != 0; got != (tt.want > 0) {
				t.Errorf("a manager watches: %t", got)
			}
		})
	}
	var none *reader
	if none.trusted(start) > 0 {
		t.Error("without a reader a manager is trusted to watch")
	}
}
