package e2e

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestInitAgain_Upgraded: three control planes, upgraded by hand with plain kubeadm to the next minor, without
// kube-proxy, their ConfigMaps edited. Then `ccmadm init` runs again and again, with the configuration of the first
// day: whatever it sees on the way, no file changes and no object.
func TestInitAgain_Upgraded(t *testing.T) {
	t.Parallel()
	l := upOld(t, "upgraded", 3, 0)
	l.must(t, "cp1", sharedEndpoint)
	first := strings.Replace(ccmadmInit, kubeadmYAML, "/tmp/three.yaml", 1)
	out := l.must(t, "cp1", first+" --upload-certs")
	join := l.joinCommand(t)
	for _, cp := range []string{"cp2", "cp3"} {
		l.must(t, cp, join+" --control-plane --certificate-key "+certificateKey(out))
	}
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 cp2 cp3")
	l.expectPlan(t)
	l.upgrade(t, l.step.to)
	eventually(t, time.Minute, "once somebody leads, nothing is left to do but the record", func() bool {
		r := l.sh(t, "cp1", "ccmadm upgrade plan")
		return r.code == 6 && !strings.Contains(r.out, "kubeadm upgrade") && strings.Contains(r.out, "ccmadm apply")
	})
	l.kubectl(t, "-n kube-system delete daemonset kube-proxy")
	l.kubectl(t, "-n kube-system annotate configmap kubeadm-config kubelet-config coredns by=hand")
	l.kubectl(t, `-n kube-system get configmap kubelet-config -o yaml |
sed 's/^    failSwapOn: false/&\n    maxPods: 99/' | `+admin+"apply -f -")
	refuser := buildProgram(t, "refuser")
	l.run(t, "cp", "--name", l.name, refuser, "cp1:/usr/local/bin/refuser")
	l.expectSameAfter(t, first)
}

// upgrade does by hand what kubeadm's documentation says: the first control plane, the others, then each kubelet. Etcd
// stays as it is: nothing here looks at it, and its restarts would take half of the time.
func (l *lab) upgrade(t *testing.T, minor string) {
	t.Helper()
	start := time.Now()
	l.bring(t, minor)
	l.onEach(t, l.nodes, "mv /usr/bin/kubeadm.new /usr/bin/kubeadm")
	l.expectBothPlans(t)
	l.must(t, "cp1", "kubeadm upgrade apply --yes --etcd-upgrade=false $(kubeadm version -o short) "+ignore)
	l.onEach(t, l.nodes[1:], "kubeadm upgrade node --etcd-upgrade=false "+ignore)
	l.onEach(t, l.nodes, "cd /usr/bin; mv kubectl.new kubectl; mv kubelet.new kubelet; systemctl restart kubelet")
	calm := 0 // a new kubelet starts every static pod again
	eventually(
		t,
		3*time.Minute,
		"all kubelets are of "+minor+", and all API servers have been ready for ten seconds",
		func() bool {
			r := l.sh(t, "cp1", admin+"get nodes --no-headers")
			count := func(what string) bool { return strings.Count(r.out, what) == len(l.nodes) }
			calm++
			if r.code != 0 || !count(" Ready") || !count("v"+minor+".") || !l.allReady(t) {
				calm = 0
			}
			time.Sleep(time.Second)
			return calm > 10
		},
	)
	t.Logf("upgraded by hand to %s in %.0f s", minor, time.Since(start).Seconds())
}

// onEach runs a script on machines at once.
func (l *lab) onEach(t *testing.T, nodes []string, script string) {
	t.Helper()
	results := make([]result, len(nodes))
	var all sync.WaitGroup
	for n, node := range nodes {
		all.Go(func() { results[n] = l.sh(t, node, script) })
	}
	all.Wait()
	for n, r := range results {
		if r.code != 0 {
			t.Fatalf("%s: %s: exit status %d\n%s", nodes[n], script, r.code, r.out)
		}
	}
}

// itself asks the API server of the machine, behind no proxy.
const itself = admin + "--server https://127.0.0.1:6443 --tls-server-name kubernetes "

// allReady asks the API server of each machine itself.
func (l *lab) allReady(t *testing.T) bool {
	t.Helper()
	for _, node := range l.nodes {
		if r := l.sh(t, node, itself+"get --raw /readyz"); r.code != 0 {
			return false
		}
	}
	return true
}

// instead has the machine's address of the control planes answer with a status; behindProxy puts things back.
const (
	instead = "systemctl stop lab-api && cd /etc/kubernetes/pki && " +
		"systemd-run --unit refuser /usr/local/bin/refuser 127.0.0.1:8443 $PWD/apiserver.crt $PWD/apiserver.key "
	listening   = "ss -Hltn 'sport = 6443' | grep -q ."
	behindProxy = "systemctl stop refuser; systemctl start lab-api; until " + admin + "get --raw /readyz; do sleep 1; done"
)

// again is one more run of init.
type again struct {
	name, given, run string
	code             int
	want             string
	restore          string
}

func againAfterUpgrade(first string) []again {
	refused := "compare with the cluster's record"
	return []again{
		{name: "the same command", run: first, want: "kubeadm has finished here"},
		{name: "once more", run: first, want: "kubeadm has finished here"},
		{
			name: "another mode", run: first + " --mode DaemonSet", code: 5,
			want: `init with mode "DaemonSet": the cluster's record says "StaticPod"`,
		},
		{name: "another image", run: first + " --image x:1", code: 5, want: `init with controllerManager.image "x:1"`},
		{name: "another name", run: first + " --node-name cp9", code: 5, want: "this machine is Node/cp1"},
		{name: "too many requests", given: instead + "429", run: first, code: 5, want: refused, restore: behindProxy},
		{name: "service unavailable", given: instead + "503", run: first, code: 5, want: refused, restore: behindProxy},
		{
			name:    "this machine's API server is stopped, and others answer",
			given:   "mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/; while " + listening + "; do sleep 1; done",
			run:     first,
			want:    "kubeadm has finished here",
			restore: "mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/; until " + listening + "; do sleep 1; done; " + behindProxy,
		},
		{
			name: "no API server answers", given: "systemctl stop lab-api", run: first, code: 5, want: refused,
			restore: behindProxy,
		},
		{
			name:  "the Node is deleted",
			given: "until " + admin + "delete node cp1; do sleep 1; done",
			run:   first + " --timeout 3s", code: 4, want: "there is no such Node",
		},
	}
}

func (l *lab) expectSameAfter(t *testing.T, first string) {
	for _, tc := range againAfterUpgrade(first) {
		t.Run(tc.name, func(t *testing.T) {
			if tc.given != "" {
				l.must(t, "cp1", tc.given)
			}
			files, revision := l.must(t, "cp1", keptFiles), l.quietRevision(t)
			objects := l.nodesAndPods(t)
			start := time.Now()
			r := l.sh(t, "cp1", tc.run)
			took := time.Since(start)
			if r.code != tc.code || !strings.Contains(r.out, tc.want) || strings.Contains(r.out, "running kubeadm") {
				t.Errorf("exit status %d, want %d and %q, and no kubeadm\n%s", r.code, tc.code, tc.want, r.out)
			}
			if diff := cmp.Diff(
				strings.Split(files, "\n"),
				strings.Split(l.must(t, "cp1", keptFiles), "\n"),
			); diff != "" {
				t.Errorf("/etc or the kubelet's configuration changed (-before +after):\n%s", diff)
			}
			l.expectNoWritesSince(t, revision)
			if diff := cmp.Diff(objects, l.nodesAndPods(t)); diff != "" {
				t.Errorf("a Node or a pod changed (-before +after):\n%s", diff)
			}
			t.Logf("exit status %d after %.1f s", r.code, took.Seconds())
			if tc.restore != "" {
				l.must(t, "cp1", tc.restore)
			}
		})
	}
	images := l.must(t, "cp1", "grep -h image: /etc/kubernetes/manifests/kube-*.yaml")
	if strings.Count(images, ":v"+l.step.to+".") != 3 {
		t.Errorf("the control plane is not what it was upgraded to:\n%s", images)
	}
	l.expectUntouched(t)
}

// nodesAndPods is what the Nodes are, and the pods on them, without what kubelets write of themselves: status, and mirror
// pods, which a new kubelet replaces in its own time.
func (l *lab) nodesAndPods(t *testing.T) []map[string]any {
	t.Helper()
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(l.must(t, "cp2", itself+"get nodes,pods -A -o json")), &list); err != nil {
		t.Fatal(err)
	}
	var kept []map[string]any
	for _, object := range list.Items {
		metadata := object["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		if _, mirror := annotations["kubernetes.io/config.mirror"]; mirror {
			continue
		}
		delete(object, "status")
		delete(metadata, "resourceVersion")
		delete(metadata, "managedFields")
		kept = append(kept, object)
	}
	return kept
}

// expectUntouched looks at what was changed by hand.
func (l *lab) expectUntouched(t *testing.T) {
	t.Helper()
	for what, want := range map[string]string{
		"configmap kubeadm-config -o yaml":                           "by: hand",
		"configmap kubelet-config -o yaml":                           "maxPods: 99",
		"daemonset --ignore-not-found kube-proxy -o name; echo none": "none",
	} {
		got := l.kubectl(t, "-n kube-system get "+what)
		if !strings.Contains(got, want) || strings.Contains(got, "kube-proxy\nnone") {
			t.Errorf("%s has become\n%s", what, got)
		}
	}
	got := l.kubectl(t, "-n kube-system get configmap kubeadm-config -o yaml")
	if !strings.Contains(got, "kubernetesVersion: v"+l.step.to+".") {
		t.Errorf("kubeadm-config has gone back:\n%s", got)
	}
}
