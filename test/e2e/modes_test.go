package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// longestWithout is how long the nodes may be without a leader while a mode changes: what its Lease lasts, and five
// seconds in which the next one comes up on a busy machine.
const longestWithout = 20 * time.Second

// TestModes changes the mode of a cluster's manager, with one control plane and with three, and reads from the audit
// logs of the API servers who wrote when. It is about seconds, so it runs before the tests that run in parallel.
func TestModes(t *testing.T) {
	l := up(t, "modes", 3, 1)
	for _, cp := range []string{"cp1", "cp2", "cp3"} {
		l.must(t, cp, withAudit)
	}
	l.must(t, "cp1", strings.Replace(sharedEndpoint, kubeadmYAML, "/etc/lab/audited.yaml", 1))
	out := l.must(t, "cp1", strings.Replace(ccmadmInit, kubeadmYAML, "/tmp/three.yaml", 1)+" --upload-certs")
	// So that a leader has something to write.
	l.must(t, "cp1", `setsid bash -c 'export KUBECONFIG=/etc/kubernetes/admin.conf; while :; do `+
		`kubectl create service loadbalancer s$SECONDS --tcp=80:80; sleep 1; done' >/dev/null 2>&1 </dev/null &`)
	for _, mode := range []string{"DaemonSet", "StaticPod", "Deployment", "DaemonSet", "Deployment"} {
		t.Run("one control plane, to "+mode, func(t *testing.T) {
			start := time.Now()
			command := cloudDocument + "'mode: " + mode + "' > /root/cloud.yaml; ccmadm apply -f /root/cloud.yaml"
			if mode == "StaticPod" {
				command = "ccmadm rollback --yes"
			}
			t.Logf("%s", l.must(t, "cp1", command))
			l.expectOneLeader(t, start, longestWithout, "cp1")
		})
	}
	t.Run("a run that is killed goes on", func(t *testing.T) {
		file := cloudDocument + "'mode: StaticPod' > /root/cloud.yaml; "
		r := l.sh(t, "cp1", file+"timeout -s KILL 3 ccmadm apply -f /root/cloud.yaml")
		t.Logf("exit status %d\n%s\n%s", r.code, r.out, l.must(t, "cp1", "ccmadm journal"))
		t.Logf("%s", l.must(t, "cp1", "ccmadm apply -f /root/cloud.yaml && ccmadm diff && ccmadm journal"))
	})
	t.Run("three control planes", func(t *testing.T) { l.modesOfThree(t, certificateKey(out)) })
}

func (l *lab) modesOfThree(t *testing.T, key string) {
	join := l.joinCommand(t) + " --control-plane --certificate-key " + key
	for _, cp := range []string{"cp2", "cp3"} {
		l.must(t, cp, join)
	}
	for _, mode := range []string{"DaemonSet", "StaticPod"} {
		t.Run("to "+mode, func(t *testing.T) {
			start := time.Now()
			l.must(t, "cp1", cloudDocument+"'mode: "+mode+"' > /root/cloud.yaml")
			for i, node := range []string{"cp1", "cp2", "cp3"} {
				command := "ccmadm apply"
				if i == 0 {
					command += " -f /root/cloud.yaml"
				}
				out := l.must(t, node, command)
				t.Logf("%s: %s", node, out)
				if named := strings.Contains(out, "not yet on"); named != (i < 2) {
					t.Errorf("%s: others are named: %v", node, named)
				}
			}
			l.expectOneLeader(t, start, longestWithout, "cp1", "cp2", "cp3")
			for _, node := range []string{"cp1", "cp2", "cp3"} {
				l.must(t, node, "ccmadm diff")
			}
		})
	}
}

// write is one of a manager's, who is a user and, with a ServiceAccount, its pod, or else the machine.
type write struct {
	who   string
	at    time.Time
	lease bool
	event bool // which is sent when there is time, and changes nothing
	what  string
}

// expectOneLeader reads who has written since start: nobody but who held the Lease then, and somebody held it all the
// time but for so long at most.
func (l *lab) expectOneLeader(t *testing.T, start time.Time, atMost time.Duration, nodes ...string) {
	t.Helper()
	time.Sleep(3 * time.Second) // a renewal of the new one
	var writes []write
	for _, node := range nodes {
		for _, e := range l.auditEventsOf(t, node) {
			if w, is := managerWrite(node, &e); is {
				writes = append(writes, w)
			}
		}
	}
	slices.SortFunc(writes, func(a, b write) int { return a.at.Compare(b.at) })
	var leader string
	var renewed time.Time
	var longest time.Duration
	leaders, others := 0, 0
	for _, w := range writes {
		if w.at.Before(start) { // who leads when it begins, and since when nobody does
			if w.lease {
				leader, renewed, leaders = w.who, w.at, 1
			}
			continue
		}
		if !w.lease {
			others++
			if leader != "" && w.who != leader && !w.event {
				t.Errorf("%s writes %s at %s, and %s leads", w.who, w.what, w.at.Format(time.StampMilli), leader)
			}
			continue
		}
		if !renewed.IsZero() {
			longest = max(longest, w.at.Sub(renewed))
		}
		if renewed = w.at; w.who != leader {
			leader = w.who
			leaders++
		}
	}
	t.Logf("%d leaders, %d writes of theirs, longest time without a renewal %.1f s", leaders, others, longest.Seconds())
	if longest > atMost || leaders < 2 || others == 0 {
		t.Errorf("%d leaders, %d writes, without a renewal for %s", leaders, others, longest)
	}
}

// managerWrite tells whether a request has changed something, or the Lease, for a manager.
func managerWrite(node string, e *auditv1.Event) (write, bool) {
	static := e.User.Username == "system:cloud-controller-manager"
	scheduled := strings.HasPrefix(e.User.Username, "system:serviceaccount:kube-system:") &&
		strings.HasSuffix(e.User.Username, "-cloud-controller-manager") // of whichever provider
	ref, status := e.ObjectRef, e.ResponseStatus
	if !static && !scheduled || ref == nil || status == nil || status.Code > 299 ||
		!slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb) ||
		strings.HasSuffix(ref.Resource, "reviews") {
		return write{}, false // a SubjectAccessReview is a question
	}
	who := "static pod of " + node
	if scheduled {
		who = cmp.Or(strings.Join(e.User.Extra["authentication.kubernetes.io/pod-name"], ""), "a pod")
	}
	return write{
		who: who, at: e.RequestReceivedTimestamp.Time, lease: ref.Resource == "leases",
		event: ref.Resource == "events",
		what:  fmt.Sprintf("%s %s/%s", e.Verb, ref.Resource, ref.Name),
	}, true
}
