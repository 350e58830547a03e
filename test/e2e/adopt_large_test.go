package e2e

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// statefulPods are beside adoptedPods.
const statefulPods = `---
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {run: db}, ports: [{port: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {run: db}}
  template:
    metadata: {labels: {run: db}}
    spec:
      containers:
      - {name: echo, image: lab.local/echo:1, imagePullPolicy: Never, readinessProbe: {tcpSocket: {port: 8080}}}
`

// adoptWithin is what five nodes may take.
const adoptWithin = time.Minute

// TestAdopt_Large: three control planes behind a name, two workers, and a node whose kubelet is silent, with a
// Deployment under load and a StatefulSet. The silent node is refused, then left out, and keeps the lifecycle off until
// it follows.
func TestAdopt_Large(t *testing.T) {
	l := up(t, "adoptlarge", 3, 3, "--image", adoptImage, "--binary", buildProgram(t, "requester"))
	all := l.plainControlPlanes(t, []string{"cp2", "cp3"}, []string{"w1", "w2", "w3"})
	l.kubectl(t, "cordon w3") // a client's requests start there
	nodes := all[:5]
	l.runPods(t, adoptedPods+statefulPods, "deployment/web", "statefulset/db")
	l.must(t, "w3", "systemctl stop kubelet")
	eventually(t, 2*time.Minute, "w3 is not Ready", func() bool {
		return strings.Contains(l.kubectl(t, "get node w3"), "NotReady")
	})
	before, restarts := l.seen(t, nodes), l.kubectl(t, podRestarts)

	t.Run("a silent node is refused", func(t *testing.T) {
		revision := l.revision(t)
		r := l.sh(t, "cp1", adoptByPods)
		if r.code != 5 || !strings.Contains(r.out, "w3: it is not Ready") || !strings.Contains(r.out, "--skip w3") {
			t.Errorf("exit status %d, want 5\n%s", r.code, r.out)
		}
		l.expectNoWritesSince(t, revision)
	})
	start := time.Now()
	out := l.underLoad(t, "adopt", func() string { return l.must(t, "cp1", adoptByPods+" --skip w3 --parallel 2") })
	took := time.Since(start)
	t.Logf("five nodes in %.1f s: %s", took.Seconds(), regexp.MustCompile(`\w+: done in [0-9.]+ s`).FindAllString(out, -1))
	if took > adoptWithin {
		t.Errorf("five nodes took %s", took)
	}
	l.expectInitialized(t, nodes...)
	l.expectNotRestarted(t, restarts)
	if !strings.Contains(out, "stays off: the provider does not know w3") {
		t.Error("the lifecycle is not said to stay off")
	}
	t.Run("the node that was left out follows", func(t *testing.T) {
		l.must(t, "w3", "systemctl start kubelet")
		l.kubectl(t, "wait --for=condition=Ready --timeout=240s node/w3")
		again := l.must(t, "cp2", adoptByPods)
		if strings.Contains(again, "[lifecycle] stays off") || strings.Contains(again, "cp1: the kubelet was restarted") {
			t.Errorf("%s", again)
		}
		l.expectInitialized(t, all...)
	})
	l.underLoad(t, "leave", func() string { return l.must(t, "cp3", leaveByPods+" --parallel 2") })
	l.expectNotRestarted(t, restarts)
	l.expectAsBefore(t, before, l.seen(t, nodes))
}
