package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestAdopt_Driver: the control plane that drives adopt, and later leave, loses its power half-way. The same command
// from another one completes: without the machine that is off, which is named, and with it once it is back.
func TestAdopt_Driver(t *testing.T) {
	l := up(t, "adoptdriver", 3, 2, "--image", adoptImage)
	nodes := l.plainControlPlanes(t, []string{"cp2", "cp3"}, []string{"w1", "w2"})
	before := l.seen(t, nodes)
	const driver = "cp3" // the machines reach the API servers by cp1
	alive := []string{"cp1", "cp2", "w1", "w2"}
	returns := func(t *testing.T) {
		t.Helper()
		l.run(t, "start", "--name", l.name, driver)
		l.kubectl(t, "wait --for=condition=Ready --timeout=240s node/"+driver)
	}

	t.Run("adopt, and the machine stays off", func(t *testing.T) {
		l.loseDriver(t, driver, adoptByPods, "[nodes] w1: done")
		l.kubectl(t, "wait --for=condition=Ready=Unknown --timeout=240s node/"+driver)
		if r := l.sh(t, "cp1", adoptByPods); r.code != 5 || !strings.Contains(r.out, "cp3: it is not Ready") ||
			!strings.Contains(r.out, "--skip cp3") {
			t.Errorf("exit status %d, want 5 and the machine that is off\n%s", r.code, r.out)
		}
		start := time.Now()
		out := l.must(t, "cp1", adoptByPods+" --skip "+driver)
		t.Logf("without %s in %.1f s\n%s", driver, time.Since(start).Seconds(), out)
		if !strings.Contains(out, "stays off: the provider does not know "+driver) {
			t.Error("the lifecycle is not said to stay off")
		}
		l.expectInitialized(t, alive...)
		l.expectExternal(t, alive...)
	})
	t.Run("adopt, and the machine is back", func(t *testing.T) {
		returns(t)
		t.Logf("%s", l.must(t, "cp2", adoptByPods))
		l.expectInitialized(t, nodes...)
		l.expectExternal(t, nodes...)
		l.must(t, "cp2", "ccmadm diff")
	})
	t.Run("leave", func(t *testing.T) {
		l.loseDriver(t, driver, leaveByPods, "[nodes] cp1: done")
		returns(t)
		t.Logf("%s", l.must(t, "cp2", leaveByPods))
		l.expectAsBefore(t, before, l.seen(t, nodes))
	})
}

// loseDriver cuts a machine's power once a command that runs there has said something.
func (l *lab) loseDriver(t *testing.T, driver, command, at string) {
	t.Helper()
	done := make(chan result)
	go func() { done <- l.sh(t, driver, command+" > /tmp/driven 2>&1") }()
	r := l.sh(t, driver, "timeout 240 bash -c \"until grep -sqF '"+at+"' /tmp/driven; do sleep 0.02; done\"; "+
		"tail -n 1 /tmp/driven; pgrep -x ccmadm > /dev/null")
	if r.code != 0 {
		t.Fatalf("%s on %s has not come to %s, or ended\n%s", command, driver, at, l.sh(t, driver, "cat /tmp/driven").out)
	}
	l.run(t, "kill", "--name", l.name, driver)
	t.Logf("%s on %s: exit status %d, when it had said: %s", strings.Fields(command)[1], driver, (<-done).code, r.out)
}

// expectExternal looks at the command lines of kubelets.
func (l *lab) expectExternal(t *testing.T, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		if flags := l.must(t, node, kubeletFlags); !strings.Contains(flags, "--cloud-provider=external") {
			t.Errorf("%s: the kubelet runs with %s", node, flags)
		}
	}
}
