package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/test/lab/image"
)

const (
	answererImage = "lab.local/answerer:1"

	// answerers are two pods on each worker, of which the DaemonSet replaces its own without a pause.
	answerers = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: answer}
spec:
  selector: {matchLabels: {app: answer, kind: each}}
  updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: answer, kind: each}}
    spec:
      terminationGracePeriodSeconds: 8
      containers:
      - {name: answer, image: %[1]s, imagePullPolicy: Never, readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}
`
	lanPool = `apiVersion: ccmadm.dev/v1alpha1
kind: AddressPool
metadata: {name: lan}
spec: {ranges: ["%s-%s"], level: L2}
`
)

// TestLoadBalancerBehaviour shows on machines what Kubernetes' own tests ask of load balancers, and that Services come
// over from another implementation. docs/contributing/load-balancer-tests.md says which test shows what.
func TestLoadBalancerBehaviour(t *testing.T) {
	t.Parallel()
	answerer := buildProgram(t, "answerer")
	l := up(t, "behaviour", 1, 3, "--image", agentImage, "--binary", buildProgram(t, "prober"), "--binary", answerer)
	l.run(t, "load", "--name", l.name, answererArchive(t, answerer))
	l.must(t, "cp1", ccmadmInit+" --node-agent")
	join := l.joinCommand(t)
	for _, node := range []string{"w1", "w2"} {
		l.must(t, node, join)
		// A Node that redirects clients of its own subnet does not refuse them: the kernel has one limit for both.
		l.must(t, node, "sysctl -qw net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.eth0.send_redirects=0")
	}
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w2")
	l.apply(t, fmt.Sprintf(answerers, answererImage))
	for _, node := range []string{"w1", "w2"} {
		l.pod(t, "more-"+node, "answer", node)
	}
	l.kubectl(t, "-n kube-system rollout status daemonset/ccmadm-node-agent --timeout=240s")
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod -l app=answer")
	t.Cleanup(func() {
		if t.Failed() {
			l.explainBalancers(t)
		}
	})

	t.Run("Services come over", func(t *testing.T) { l.testMigration(t) })
	l.apply(t, fmt.Sprintf(lanPool, l.inSubnet(t, 200), l.inSubnet(t, 219)))
	together(t, map[string]func(*testing.T){
		"type and ports of TCP":        func(t *testing.T) { l.testMutability(t, "TCP") },
		"type and ports of UDP":        func(t *testing.T) { l.testMutability(t, "UDP") },
		"source ranges":                l.testSourceRanges,
		"session affinity, Cluster":    func(t *testing.T) { l.testAffinity(t, "Cluster") },
		"session affinity, Local":      func(t *testing.T) { l.testAffinity(t, "Local") },
		"without NodePorts, then with": l.testNodePorts,
		"UDP when its server cycles":   l.testUDPCycle,
		"externalTrafficPolicy Local":  l.testLocal,
	})
	t.Run("no disruption", l.testNoDisruption)
}

// apply creates or changes objects.
func (l *lab) apply(t *testing.T, manifest string) {
	t.Helper()
	l.kubectl(t, "apply -f - <<'END'\n"+manifest+"\nEND")
}

// pod makes one that answers, on a machine.
func (l *lab) pod(t *testing.T, name, app, node string) {
	t.Helper()
	l.podOf(t, name, answererImage, app, node)
}

func (l *lab) podOf(t *testing.T, name, image, app, node string) {
	t.Helper()
	l.kubectl(t, fmt.Sprintf(`run %s --image=%s --image-pull-policy=Never --labels=app=%s `+
		`--overrides='{"spec":{"nodeName":%q}}'`, name, image, app, node))
}

// answererArchive packs the program into an image.
func answererArchive(t *testing.T, program string) string {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "answerer.tar")
	err := image.Write(archive, image.Spec{
		Name: answererImage, Files: map[string]string{"/answerer": program}, Entrypoint: []string{"/answerer"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// serve makes a Service for the pods of an app on port 80, with further fields of its spec.
func (l *lab) serve(t *testing.T, name, app, protocol, fields string) {
	t.Helper()
	l.apply(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": %q}, "spec": {
 "selector": {"app": %q}, "ports": [{"name": "main", "port": 80, "targetPort": 8080, "protocol": %q}], %s}}`, name, app, protocol, fields))
}

func (l *lab) patchService(t *testing.T, name, patch string) {
	t.Helper()
	l.kubectl(t, "patch service "+name+" -p '"+patch+"'")
}

func (l *lab) service(t *testing.T, name string) corev1.Service {
	t.Helper()
	var s corev1.Service
	if err := json.Unmarshal([]byte(l.kubectl(t, "get service "+name+" -o json")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// waitAddress returns the address that the Service gets.
func (l *lab) waitAddress(t *testing.T, name string) string {
	t.Helper()
	l.kubectl(t, "wait --for=jsonpath='{.status.loadBalancer.ingress}' --timeout=240s service/"+name)
	return l.service(t, name).Status.LoadBalancer.Ingress[0].IP
}

// ask is a client outside of the cluster: it returns the answer, or refused, or silence.
func (l *lab) ask(t *testing.T, protocol, address string) string {
	t.Helper()
	command := "curl -s -m 2 http://" + address + "/"
	if protocol == "UDP" {
		command = "answerer ask " + address
	}
	r := l.sh(t, clientMachine, command)
	switch {
	case r.code == 0:
		return strings.TrimSpace(r.out)
	case protocol == "TCP" && r.code == 7, strings.Contains(r.out, "refused"):
		return "refused"
	}
	return "silence"
}

// expectAnswer waits for an answer that has a text in it.
func (l *lab) expectAnswer(t *testing.T, protocol, address, want string) {
	t.Helper()
	var got string
	eventually(t, 30*time.Second, fmt.Sprintf("%s asks %s and gets %q", protocol, address, want), func() bool {
		got = l.ask(t, protocol, address)
		return want == "" && got != "refused" && got != "silence" || want != "" && strings.Contains(got, want)
	})
}

// fromPod asks from a pod, and returns the answer, if there is any.
func (l *lab) fromPod(t *testing.T, pod, address string) string {
	t.Helper()
	r := l.sh(t, "cp1", admin+"exec "+pod+" -- /answerer get http://"+address+"/")
	if r.code != 0 {
		return ""
	}
	return strings.TrimSpace(r.out)
}
