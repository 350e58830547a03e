package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	rehearsePod = "ccmadm rehearse --provider sample --arg --cloud-provider=sample --timeout 60s --cloud-config " +
		cloudConf
	sampleImage = " --image lab.local/sample-ccm:1 --program /bin/ccm-sample"
	thief       = "lab.local/thief:1"
	// ofRehearsals are all kinds of object that a rehearsal in a pod has.
	ofRehearsals = "get namespaces,pods,secrets,serviceaccounts,leases,roles,rolebindings,clusterroles," +
		"clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings -A -l ccmadm.dev/rehearsal -o name"
)

// rehearseInPod has the cluster of TestRehearse rehearse by itself: what it says is what --binary says; a program that
// takes the pod's token writes nothing, not even where somebody has given it every permission; and nothing stays.
func rehearseInPod(t *testing.T, l *lab) {
	l.installCCM(t, "sample")
	l.writeFiles(t, map[string]string{
		cloudConf: `{"s1": {"id": "1", "address": "198.18.77.1"}, "cp1": {"id": "0", "address": "198.18.77.9"}}` + "\n",
	})
	l.addNodes(t, []rehearsed{{name: "s1", providerID: "sample://1"}, {name: "s2", providerID: "sample://2"}})
	before := l.untouched(t)
	inPod := l.sh(t, "cp1", rehearsePod+sampleImage+" -o json --log /tmp/ccm.log 2>/tmp/err")
	l.expectNoRehearsal(t)
	here := l.sh(t, "cp1", rehearsePod+" -o json --binary /usr/local/bin/ccm 2>/dev/null")
	if inPod != here || here.code != 6 || !strings.Contains(here.out, `"node":"s2","outcome":"WouldBeDeleted"`) {
		t.Errorf("in a pod, exit status %d:\n%s%s\nhere, exit status %d:\n%s", inPod.code, inPod.out,
			l.sh(t, "cp1", "cat /tmp/err").out, here.code, here.out)
	}
	if after := l.untouched(t); after != before {
		t.Errorf("Nodes have changed from\n%s\nto\n%s", before, after)
	}
	l.must(t, "cp1", "grep -q 'became leader' /tmp/ccm.log")
	t.Run("a program that takes the pod's token", func(t *testing.T) { attackFromPod(t, l) })
	t.Run("a run that was killed, and an image that nobody has", func(t *testing.T) {
		l.must(t, "cp1", rehearsePod+sampleImage+" > /tmp/killed 2>&1 & run=$!; "+
			"until grep -q 'pass 1' /tmp/killed; do sleep 0.2; done; kill -KILL $run")
		start := time.Now()
		r := l.sh(t, "cp1", rehearsePod+" --image registry.invalid/ccm:1 --program /ccm")
		t.Logf("after %.1f s: %s", time.Since(start).Seconds(), r.out)
		for _, text := range []string{", left by cp1", "its image cannot be pulled: ImagePullBackOff: "} {
			if r.code != 1 || !strings.Contains(r.out, text) {
				t.Errorf("exit status %d, want 1 and %q", r.code, text)
			}
		}
		l.expectNoRehearsal(t)
	})
}

func attackFromPod(t *testing.T, l *lab) {
	program, archive := buildProgram(t, "thief"), filepath.Join(t.TempDir(), "thief.tar")
	l.run(t, "image", "--name", thief, "--binary", program, "--user", "65532", "--output", archive)
	l.run(t, "load", "--name", l.name, archive)
	before := l.untouched(t)
	attack := func(denied string) {
		t.Helper()
		r := l.sh(t, "cp1", rehearsePod+" --image "+thief+" --program /thief --log /tmp/thief.log")
		log := l.must(t, "cp1", "cat /tmp/thief.log")
		t.Logf("%s\n%s", r.out, log)
		if r.code != 1 || !strings.Contains(log, "where programs look: false an address of the cluster: false") {
			t.Errorf("exit status %d, want 1 and no token where programs look", r.code)
		}
		refused := 0
		for line := range strings.Lines(log) {
			if strings.Contains(line, " 403 ") && strings.Contains(line, denied) {
				refused++
			}
		}
		if refused != 4 || !strings.Contains(log, "GET /api/v1/nodes 200") {
			t.Errorf("not every write of four is refused by %q", denied)
		}
		if after := l.untouched(t); after != before {
			t.Errorf("Nodes have changed from\n%s\nto\n%s", before, after)
		}
	}
	attack("cannot ") // RBAC's word
	l.kubectl(t, "create clusterrolebinding thief --clusterrole cluster-admin --group system:serviceaccounts")
	defer l.kubectl(t, "delete clusterrolebinding thief")
	attack("a rehearsal writes nothing")
	l.expectNoRehearsal(t)
}

func (l *lab) rehearsals(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(strings.ReplaceAll(l.kubectl(t, ofRehearsals), "No resources found", ""))
}

// expectNoRehearsal leaves the namespace's own controller the time to end it.
func (l *lab) expectNoRehearsal(t *testing.T) {
	t.Helper()
	found := ""
	for range 30 {
		if found = l.rehearsals(t); found == "" {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Errorf("left behind: %s", found)
}
