package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var (
	kills    = flag.Int("kills", 4, "at how many random moments a command is killed")
	killSeed = flag.Uint64("kill-seed", uint64(time.Now().UnixNano()), "of those moments, to have the same ones again")
)

// killsInARow come before the command may end: the next one meets what the last one left.
const killsInARow = 3

// TestCrash_AtRandom kills init, a worker's join and a control plane's join with SIGKILL at random moments, inside
// kubeadm's phases too, sometimes ccmadm alone and sometimes kubeadm with it. The same command again completes, or says
// that only a reset helps.
func TestCrash_AtRandom(t *testing.T) {
	t.Parallel()
	t.Logf("-kills %d -kill-seed %d", *kills, *killSeed)
	l := up(t, "kills", 2, 1)
	l.must(t, "cp1", sharedEndpoint)
	l.behindReadyz(t)
	initialize := strings.Replace(ccmadmInit, kubeadmYAML, "/tmp/three.yaml", 1) + " --upload-certs"
	t.Run("init", func(t *testing.T) {
		v := victim{lab: l, node: "cp1", command: initialize, random: rand.New(rand.NewPCG(*killSeed, 1))}
		v.survives(t)
	})
	if t.Failed() {
		t.FailNow()
	}
	l.must(t, "cp1", initialize) // done, unless the command line left out what is above
	join := l.joinCommand(t)
	key := certificateKey(l.must(t, "cp1", "kubeadm init phase upload-certs --upload-certs 2>&1"))
	if key == "" {
		t.Fatal("no certificate key")
	}
	joins := map[string]func(*testing.T){}
	for n, v := range []victim{
		{node: "w1", command: join},
		{node: "cp2", command: join + " --control-plane --certificate-key " + key},
	} {
		v.lab, v.random = l, rand.New(rand.NewPCG(*killSeed, uint64(n)+2))
		joins["join "+v.node] = v.survives
	}
	together(t, joins)
	l.expectInitialized(t, "cp1", "cp2", "w1")
}

// victim is a command on a machine.
type victim struct {
	*lab

	node, command string
	random        *rand.Rand
	took          time.Duration // of a run that nobody disturbed, or less
}

// survives kills the command as often as was asked for, and ends with a run that completed. A kill that came too late
// does not count.
func (v *victim) survives(t *testing.T) {
	v.completes(t)
	hit, refused := 0, 0
	for round := 0; hit < *kills && round < 4**kills; round++ {
		v.reset(t)
		for range killsInARow {
			if hit == *kills || !v.kill(t, hit+1) {
				break
			}
			hit++
		}
		if !v.completes(t) {
			refused++
		}
	}
	t.Logf("%s: %d kills met the command at work, %d times only a reset helped", v.node, hit, refused)
	if hit < *kills {
		t.Errorf("%s: %d kills, want %d", v.node, hit, *kills)
	}
}

// kill says whether the command was still at work.
func (v *victim) kill(t *testing.T, n int) bool {
	t.Helper()
	after := time.Duration(v.random.Int64N(int64(v.took)))
	whom, what := "$pid", "ccmadm"
	if v.random.IntN(2) == 0 {
		whom, what = "-$pid", "ccmadm and kubeadm"
	}
	r := v.sh(t, v.node, fmt.Sprintf(`setsid %s > /tmp/out 2>&1 & pid=$!; sleep %.3f; kill -9 -- %s 2>/dev/null
{ wait $pid; } 2>/dev/null; code=$?; tail -n 1 /tmp/out | cut -c 1-100; exit $code`, v.command, after.Seconds(), whom))
	t.Logf("%s: kill %d of %s after %s: exit status %d at: %s", v.node, n, what, after.Round(time.Millisecond), r.code, strings.TrimSpace(r.out))
	if r.code != 137 && r.code != 0 {
		t.Errorf("%s: it ended before it was killed: %s", v.node, v.must(t, v.node, "cat /tmp/out"))
	}
	if r.code == 0 { // the machine is quicker than it was at the first run
		v.took = min(v.took, after)
	}
	return r.code == 137
}

// completes runs the command to its end, and says whether that took no reset.
func (v *victim) completes(t *testing.T) bool {
	t.Helper()
	start := time.Now()
	r := v.sh(t, v.node, v.command)
	took := time.Since(start)
	if v.took == 0 {
		v.took = took
		t.Logf("%s: %.1f s undisturbed", v.node, took.Seconds())
	}
	if r.code == 0 {
		return true
	}
	if r.code != 5 || !strings.Contains(r.out, "ccmadm reset") {
		t.Fatalf("%s: the same command again: exit status %d, want 0, or 5 and the way out\n%s", v.node, r.code, r.out)
	}
	t.Logf("%s: refused:\n%s", v.node, r.out)
	v.reset(t)
	v.must(t, v.node, v.command)
	return false
}

func (v *victim) reset(t *testing.T) {
	t.Helper()
	if r := v.sh(t, v.node, "ccmadm reset --force"); strings.Contains(r.out, "/var/lib/etcd/member still exists") { // kubeadm's race
		t.Logf("%s: %s", v.node, r.out)
		v.must(t, v.node, "crictl rmp --force --all; rm -r /var/lib/etcd/member")
	} else if r.code != 0 {
		t.Fatalf("%s: reset: exit status %d\n%s", v.node, r.code, r.out)
	}
	if v.node != "cp1" {
		v.kubectl(t, "delete node --ignore-not-found "+v.node)
	}
}
