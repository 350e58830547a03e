package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const (
	adoptByPods = "ccmadm adopt --provider onprem --via pods --yes"
	leaveByPods = "ccmadm leave --via pods --yes"
	// outage is for how long no API server answers.
	outage = 20 * time.Second
)

// TestAdopt_Crash_AtRandom kills adopt and leave with SIGKILL at random moments, loses a worker's power, and takes the
// API servers away. What comes after, from either control plane, completes or leads back: the same command, or the
// opposite one. In the end the machines are as kubeadm has made them.
func TestAdopt_Crash_AtRandom(t *testing.T) {
	t.Logf("-kills %d -kill-seed %d", *kills, *killSeed)
	l := up(t, "adoptkills", 2, 1, "--image", adoptImage)
	nodes := l.plainControlPlanes(t, []string{"cp2"}, []string{"w1"})
	s := &shaken{lab: l, nodes: nodes, before: l.seen(t, nodes), random: rand.New(rand.NewPCG(*killSeed, 7))}
	s.took = map[string]time.Duration{adoptByPods: s.completes(t, adoptByPods), leaveByPods: s.completes(t, leaveByPods)}
	for s.hits[0] < *kills || s.hits[1] < *kills {
		if s.hits[0] < *kills {
			s.shake(t, adoptByPods, &s.hits[0])
		}
		if s.hits[0] >= *kills || s.random.IntN(3) > 0 {
			s.completes(t, adoptByPods)
			s.shake(t, leaveByPods, &s.hits[1])
			if s.random.IntN(3) == 0 {
				s.completes(t, adoptByPods)
			}
		}
		s.completes(t, leaveByPods)
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("adopt was at work when it was disturbed %d times, leave %d times", s.hits[0], s.hits[1])
}

// plainControlPlanes is what kubeadm makes of several control planes behind one name, and of workers.
func (l *lab) plainControlPlanes(t *testing.T, controlPlanes, workers []string) []string {
	t.Helper()
	l.must(t, "cp1", sharedEndpoint)
	l.behindReadyz(t)
	out := l.must(t, "cp1", "kubeadm init --upload-certs --config /tmp/three.yaml "+ignore)
	join := strings.TrimSpace(l.must(t, "cp1", "kubeadm token create --print-join-command 2>/dev/null")) + " " + ignore
	for _, node := range controlPlanes {
		l.must(t, node, join+" --control-plane --certificate-key "+certificateKey(out))
	}
	for _, node := range workers {
		l.must(t, node, join)
	}
	nodes := append(append([]string{"cp1"}, controlPlanes...), workers...)
	l.connectPods(t, nodes...)
	l.kubectl(t, "-n kube-system rollout status deployment/coredns --timeout=240s")
	return nodes
}

// shaken is a cluster that goes in and out of external cloud mode.
type shaken struct {
	*lab

	nodes  []string
	before map[string]string
	random *rand.Rand
	took   map[string]time.Duration // of runs that nobody disturbed
	hits   [2]int
	held   bool // the run before was cut short, so that the next one watches its Lease
}

// from is the control plane that a command is run on.
func (s *shaken) from() string { return fmt.Sprintf("cp%d", 1+s.random.IntN(2)) }

// shake disturbs a command a few times in a row: each run meets what the one before has left.
func (s *shaken) shake(t *testing.T, command string, hits *int) {
	t.Helper()
	for range 1 + s.random.IntN(killsInARow) {
		from, after := s.from(), time.Duration(s.random.Int64N(int64(s.took[command])))
		if s.held {
			after += 15 * time.Second
		}
		what, code, last := "SIGKILL", 0, ""
		switch s.random.IntN(8) {
		case 0:
			what = "power cut of w1"
			code, last = s.during(t, from, command, after, func() {
				s.run(t, "kill", "--name", s.name, "w1")
				s.run(t, "start", "--name", s.name, "w1")
			})
		case 1:
			what = "no API server"
			code, last = s.during(t, from, command, after, func() {
				s.signalServers(t, "STOP")
				time.Sleep(outage)
				s.signalServers(t, "CONT")
			})
		default:
			code, last = s.kill(t, from, command, after)
		}
		t.Logf("%s %s after %s: %s: exit status %d at: %s", from, strings.Fields(command)[1],
			after.Round(time.Millisecond), what, code, last)
		if code == 0 {
			return // it was through: nothing is left to disturb
		}
		*hits++
	}
}

func (s *shaken) kill(t *testing.T, from, command string, after time.Duration) (code int, last string) {
	t.Helper()
	r := s.sh(t, from, fmt.Sprintf(`setsid %s > /tmp/out 2>&1 & pid=$!; sleep %.3f; kill -9 -- $pid 2>/dev/null
{ wait $pid; } 2>/dev/null; code=$?; tail -n 1 /tmp/out | cut -c 1-140; exit $code`, command, after.Seconds()))
	if r.code != 137 && r.code != 0 {
		s.wayOut(t, command, r.code, s.must(t, from, "cat /tmp/out"))
	}
	s.held = r.code == 137
	return r.code, strings.TrimSpace(r.out)
}

// during lets something happen while the command runs, which may fail then, and says how to go on.
func (s *shaken) during(t *testing.T, from, command string, after time.Duration, happens func()) (int, string) {
	t.Helper()
	done := make(chan result)
	go func() { done <- s.sh(t, from, command) }()
	time.Sleep(after)
	happens()
	r := <-done
	s.held = false
	// A Node stays Ready for a while when its machine is off.
	eventually(t, 2*time.Minute, "the kubelet of w1 answers", func() bool {
		return s.sh(t, "w1", "curl -sf http://127.0.0.1:10248/healthz").code == 0
	})
	s.kubectl(t, "wait --for=condition=Ready --timeout=240s node "+strings.Join(s.nodes, " "))
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	return r.code, strings.Join(lines[max(0, len(lines)-3):], " | ")
}

func (s *shaken) signalServers(t *testing.T, signal string) {
	for _, node := range []string{"cp1", "cp2"} {
		s.must(t, node, "pkill -"+signal+" -x kube-apiserver")
	}
}

// wayOut allows a command to end by itself where there is nothing to do any more: of a cluster that has left, leave
// knows nothing.
func (s *shaken) wayOut(t *testing.T, command string, code int, out string) {
	t.Helper()
	if command == leaveByPods && code == 5 &&
		s.kubectl(t, "-n kube-system get configmap ccmadm-config --ignore-not-found") == "" {
		return
	}
	t.Fatalf("%s: exit status %d\n%s", command, code, out)
}

// completes runs a command to its end, from any control plane, and looks at what has become of the cluster.
func (s *shaken) completes(t *testing.T, command string) time.Duration {
	t.Helper()
	from, start := s.from(), time.Now()
	r := s.sh(t, from, command)
	took := time.Since(start)
	if r.code != 0 {
		s.wayOut(t, command, r.code, r.out)
	}
	t.Logf("%s %s: exit status %d in %.1f s", from, strings.Fields(command)[1], r.code, took.Seconds())
	s.held = false
	if command == leaveByPods {
		s.expectAsBefore(t, s.before, s.seen(t, s.nodes))
	} else {
		s.expectInitialized(t, s.nodes...)
		s.expectExternal(t, s.nodes...)
	}
	if t.Failed() {
		t.Fatalf("behind %s on %s:\n%s\n%s", command, from, r.out,
			s.kubectl(t, "-n kube-system get configmap ccmadm-journal -o yaml"))
	}
	return took
}
