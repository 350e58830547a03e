package bgp

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
)

// leftQueue is what GoBGP v4.8.0 leaves behind of a session that it deletes while something waits to be sent: the
// goroutine of its queue, for ever. cleanInfiniteChannel (pkg/server/util.go:67) closes the queue, and takes out of it
// what is offered at that moment only.
const leftQueue = "github.com/eapache/channels.(*InfiniteChannel).infiniteBuffer"

// TestSpeaker_Leaves ends sessions with BFD while paths come and go, which is when GoBGP leaves something behind: one
// goroutine for each session that is deleted at most, and nothing else.
func TestSpeaker_Leaves(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newRouter(t, node1)
	started := goleak.IgnoreCurrent() // with the processes of the router
	s, err := NewSpeaker(t.Context(), logr.Discard(), nodeAddresses("1"), func() {})
	noError(t, err)
	s.SetRouters(t.Context(), []Router{bfdRouter(300 * time.Millisecond)})
	established := func() bool { return sessionOf(t, s, "tor1").State == stateEstablished }
	eventually(t, 15*time.Second, "the session", established)
	stop := churn(s)
	const times = 4
	for range times {
		r.birdc("restart node1")
		eventually(t, 2*time.Second, "the session has ended", func() bool { return !established() })
		eventually(t, 20*time.Second, "the session again", established)
	}
	stop()
	noError(t, s.Close(t.Context()))
	if err := goleak.Find(started, goleak.IgnoreTopFunction(leftQueue)); err != nil {
		t.Error(err)
	}
	left := goroutinesAt(leftQueue)
	const deleted = times + 1 // by Close
	t.Logf("%d sessions were deleted, and left %d goroutines", deleted, left)
	if left > deleted {
		t.Error("that are more than one for each")
	}
}

// churn changes two hundred paths all the time, until it is stopped.
func churn(s *Speaker) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			var some []string
			for n := i % 2; n < 200; n += 2 {
				some = append(some, fmt.Sprintf("192.0.2.%d/32", n))
			}
			_ = s.SetPaths(paths(some...))
			time.Sleep(time.Millisecond) // the queue has no limit
		}
	}()
	return func() { close(end); <-ended }
}

// goroutinesAt counts those that wait in a function.
func goroutinesAt(function string) int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), function+"(")
}
