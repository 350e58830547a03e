package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	adoptImage = "../../bin/images/ccmadm.tar"
	// adoptedPods are pods on both workers, behind a port of every Node.
	adoptedPods = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {run: web}}
  template:
    metadata: {labels: {run: web}}
    spec:
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {matchLabels: {run: web}}
      containers:
      - {name: echo, image: lab.local/echo:1, imagePullPolicy: Never, readinessProbe: {tcpSocket: {port: 8080}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {run: web}, ports: [{port: 80, targetPort: 8080, nodePort: 30080}]}
`
	// kubeletFlags and machineFiles are what a machine is by its kubelet and its files.
	kubeletFlags = `tr '\0' ' ' < /proc/$(systemctl show -p MainPID --value kubelet)/cmdline`
	machineFiles = `find /etc/kubernetes /etc/systemd /etc/ccmadm /etc/default /etc/cni /var/lib/kubelet/config.yaml ` +
		`/var/lib/kubelet/kubeadm-flags.env -type f 2>/dev/null | sort | xargs sha256sum; ` +
		`ls -d /etc/ccmadm /etc/systemd/system/kubelet.service.d 2>/dev/null; true`
	clusterObjects = `get configmaps,secrets,serviceaccounts,daemonsets,deployments,roles,rolebindings,clusterroles,` +
		`clusterrolebindings,customresourcedefinitions,validatingadmissionpolicies,validatingadmissionpolicybindings,pods ` +
		`-A -o name --sort-by=.metadata.name`
	podRestarts = `get pods -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name} {.metadata.uid} ` +
		`{.status.containerStatuses[*].restartCount}{"\n"}{end}'`
)

// TestAdopt: a cluster that plain kubeadm has made goes into external cloud mode and out of it, while a client asks its
// pods for pages.
func TestAdopt(t *testing.T) {
	t.Parallel()
	l := up(t, "adopt", 1, 3, "--image", adoptImage, "--binary", buildProgram(t, "requester"))
	nodes := l.plainCluster(t)
	before := l.seen(t, nodes)
	restarts := l.kubectl(t, podRestarts)

	t.Run("a plan changes nothing", func(t *testing.T) {
		revision := l.revision(t)
		out := l.must(t, "cp1", "ccmadm adopt --provider onprem --dry-run")
		t.Logf("%s", out)
		l.expectNoWritesSince(t, revision)
		if !strings.Contains(out, "would run on w1: ccmadm node external --node-ip="+l.address(t, "w1")) {
			t.Error("the plan does not say what is done on w1")
		}
	})
	t.Run("without a yes nothing is changed", func(t *testing.T) {
		revision := l.revision(t)
		if r := l.sh(t, "cp1", "echo | ccmadm adopt --provider onprem"); r.code != 5 ||
			!strings.Contains(r.out, "nothing was changed") {
			t.Errorf("exit status %d, want 5\n%s", r.code, r.out)
		}
		l.expectNoWritesSince(t, revision)
	})
	adopted := l.underLoad(t, "adopt", func() string {
		return l.must(t, "cp1", "ccmadm adopt --provider onprem --via pods --yes")
	})
	t.Logf("seconds per node: %s", regexp.MustCompile(`\w+: done in [0-9.]+ s`).FindAllString(adopted, -1))
	l.expectInitialized(t, nodes...)
	l.expectNotRestarted(t, restarts)
	for _, node := range nodes {
		flags := l.must(t, node, kubeletFlags)
		if !strings.Contains(flags, "--cloud-provider=external --node-ip="+l.address(t, node)) {
			t.Errorf("%s: the kubelet runs with %s", node, flags)
		}
	}
	t.Run("the second time writes nothing", func(t *testing.T) {
		revision := l.quietRevision(t)
		out := l.must(t, "cp1", "ccmadm adopt --provider onprem --via pods --yes")
		l.expectNoWritesSince(t, revision)
		if strings.Contains(out, "was restarted") || strings.Contains(out, " written") {
			t.Errorf("it did something:\n%s", out)
		}
	})
	t.Run("diff finds nothing, and init runs no half of kubeadm", func(t *testing.T) {
		l.must(t, "cp1", "ccmadm diff")
		if out := l.must(t, "cp1", "ccmadm init "+ignore+" --dry-run"); strings.Contains(out, "running kubeadm init") {
			t.Errorf("init:\n%s", out)
		}
	})
	l.underLoad(t, "leave", func() string { return l.must(t, "cp1", "ccmadm leave --via pods --yes") })
	l.expectNotRestarted(t, restarts)
	l.expectAsBefore(t, before, l.seen(t, nodes))
}

// plainCluster is what kubeadm makes by itself, with pods that answer. The third worker is no node, but a client.
func (l *lab) plainCluster(t *testing.T) []string {
	t.Helper()
	l.must(t, "cp1", "kubeadm init --config "+kubeadmYAML+" "+ignore)
	join := strings.TrimSpace(l.must(t, "cp1", "kubeadm token create --print-join-command 2>/dev/null"))
	for _, w := range []string{"w1", "w2"} {
		l.must(t, w, join+" "+ignore)
	}
	nodes := []string{"cp1", "w1", "w2"}
	l.connectPods(t, nodes...)
	l.runPods(t, adoptedPods, "deployment/web")
	return nodes
}

// connectPods brings the pods' network, once each node has its range of it, and waits for the nodes.
func (l *lab) connectPods(t *testing.T, nodes ...string) {
	t.Helper()
	eventually(t, 2*time.Minute, "each node has its range of pods", func() bool {
		// kubeadm join may end before the kubelet has registered its Node.
		ranges := l.kubectl(t, "get node "+strings.Join(nodes, " ")+" --ignore-not-found -o jsonpath='{.items[*].spec.podCIDR}'")
		return len(strings.Fields(ranges)) == len(nodes)
	})
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node "+strings.Join(nodes, " "))
}

// runPods makes pods that answer.
func (l *lab) runPods(t *testing.T, objects string, workloads ...string) {
	t.Helper()
	l.writeFiles(t, map[string]string{"/root/web.yaml": objects})
	l.kubectl(t, "apply -f /root/web.yaml")
	for _, w := range workloads {
		l.kubectl(t, "rollout status "+w+" --timeout=240s")
	}
	l.kubectl(t, "-n kube-system rollout status deployment/coredns --timeout=240s")
}

// seen is what can be compared of a cluster and its machines. The taint of a Node that was not Ready goes a moment after
// it is.
func (l *lab) seen(t *testing.T, nodes []string) map[string]string {
	t.Helper()
	eventually(t, time.Minute, "nodes have no taint of a time when they were not Ready", func() bool {
		taints := l.kubectl(t, "get node "+strings.Join(nodes, " ")+" -o jsonpath='{.items[*].spec.taints[*].key}'")
		return !strings.Contains(taints, "node.kubernetes.io/not-ready") &&
			!strings.Contains(taints, "node.kubernetes.io/unreachable")
	})
	seen := map[string]string{
		"objects":        l.kubectl(t, clusterObjects),
		"kubeadm-config": l.kubectl(t, "-n kube-system get configmap kubeadm-config -o jsonpath='{.data}'"),
	}
	for _, node := range nodes {
		seen["flags of "+node] = l.must(t, node, kubeletFlags)
		seen["files of "+node] = l.must(t, node, machineFiles)
		seen["addresses of "+node] = l.kubectl(t, "get node "+node+" -o jsonpath='{.status.addresses}'")
		seen["taints of "+node] = l.kubectl(t, "get node "+node+" -o jsonpath='{.spec.taints}'")
	}
	return seen
}

// expectAsBefore allows for pods and notes of a cluster that lives, which come and go by themselves.
func (l *lab) expectAsBefore(t *testing.T, before, after map[string]string) {
	t.Helper()
	for what, was := range before {
		if what != "objects" {
			if after[what] != was {
				t.Errorf("%s: before\n%s\nafter\n%s", what, was, after[what])
			}
			continue
		}
		for left := range strings.FieldsSeq(onlyIn(after[what], was)) {
			if left != "configmap/ccmadm-journal" { // it is what happened, and stays
				t.Errorf("left in the cluster: %s", left)
			}
		}
		if gone := onlyIn(was, after[what]); gone != "" {
			t.Errorf("gone from the cluster:\n%s", gone)
		}
	}
}

// expectNotRestarted compares pods that were there before by their identity and their restarts.
func (l *lab) expectNotRestarted(t *testing.T, before string) {
	t.Helper()
	if lost := onlyIn(before, l.kubectl(t, podRestarts)); lost != "" {
		t.Errorf("pods that were there before are not as they were:\n%s", lost)
	}
}

// load is what a client has asked for.
type load struct {
	Requests, Failed int
	First            string
}

// underLoad does something while a client asks. Where a request failed, it asks as long without: that is the control.
func (l *lab) underLoad(t *testing.T, what string, do func() string) string {
	t.Helper()
	return l.underLoadOf(t, fmt.Sprintf("http://%s:30080/", l.address(t, "w1")), what, do)
}

func (l *lab) underLoadOf(t *testing.T, url, what string, do func() string) string {
	t.Helper()
	ask := func(length time.Duration) (wait func() load) {
		var out strings.Builder
		cmd := exec.Command(labBinary, "exec", "--name", l.name, clientMachine, "--", "requester",
			url, length.String())
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return func() (sum load) {
			if err := cmd.Wait(); err != nil {
				t.Fatalf("requester: %v", err)
			}
			if err := json.Unmarshal([]byte(out.String()), &sum); err != nil {
				t.Fatal(err)
			}
			return sum
		}
	}
	stop := ask(10 * time.Minute)
	start := time.Now()
	said := do()
	took := time.Since(start)
	l.sh(t, clientMachine, "pkill -INT -x requester")
	during := stop()
	t.Logf("%s: %.1f s, %d of %d requests failed (%s)\n%s", what, took.Seconds(), during.Failed, during.Requests,
		during.First, said)
	if during.Failed > 0 {
		if control := ask(took)(); during.Failed > control.Failed {
			t.Errorf("%s: %d requests failed, and %d of %d without it", what, during.Failed, control.Failed, control.Requests)
		}
	}
	if during.Requests < int(took.Seconds()*10) {
		t.Errorf("%s: only %d requests in %s", what, during.Requests, took)
	}
	return said
}
