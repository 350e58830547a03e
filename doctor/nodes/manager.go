package nodes

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// managerLogs works however many pods there are, and whatever their names.
const managerLogs = "kubectl -n " + v1alpha1.Namespace + " logs --tail=-1 -l " + v1alpha1.ComponentLabel + "=" + v1alpha1.Component

// logsCommand is managerLogs, or names the pod of a manager that has labels of its own.
func (e *evidence) logsCommand() string {
	if len(e.pods) == 0 || len(e.pods[0].Labels) == 0 || e.pods[0].Labels[v1alpha1.ComponentLabel] == v1alpha1.Component {
		return managerLogs
	}
	return kubectl(&e.pods[0]) + "logs " + e.pods[0].Name
}

// managerCause says what is wrong with the manager itself, which keeps all nodes waiting; nil if nothing is seen.
func (e *evidence) managerCause() *finding.Finding {
	if e.podsErr != nil {
		return e.notVisible()
	}
	if len(e.pods) == 0 {
		return e.noPod()
	}
	running := slices.IndexFunc(e.pods, func(p corev1.Pod) bool { return podCause(&p, e) == nil })
	var cause *finding.Finding
	if running < 0 {
		cause = podCause(&e.pods[0], e)
		if cause.ID != finding.CrashLoop && cause.ID != finding.PodTerminated {
			return cause // it has not come so far as to be refused anything
		}
	}
	if !e.led() {
		if line := e.unauthorized(); line != "" {
			return e.unauthorizedCause(line)
		}
	}
	if missing := e.missingVital(); len(missing) > 0 {
		return e.missingCause(missing)
	}
	switch {
	case cause != nil:
		return cause
	case !e.led():
		if cause := e.endsAgain(); cause != nil {
			return cause
		}
		return e.leaderCause(&e.pods[running])
	}
	if skipped := e.withoutNodes(); skipped != "" {
		found := finding.NoNodeController.New(
			"",
			"the cloud-controller-manager runs without its node controller, because the cloud did not "+
				"answer when it started, or has no instances: "+skipped,
		)
		found.Next = "once the cloud's API answers: " + kubectl(&e.pods[running]) + "delete pod " + e.pods[running].Name
		return &found
	}
	return nil
}

func (e *evidence) notVisible() *finding.Finding {
	message := "the cloud-controller-manager's pods cannot be read: " + e.podsErr.Error()
	if isForbidden(e.podsErr) {
		message = "only an administrator may read the cloud-controller-manager's pods, a worker's kubelet may not"
	}
	if e.leader.lease != nil && !e.led() {
		message += "; " + e.leader.leaderless(e.now)
	}
	found := finding.NotVisible.New("", message)
	found.Next = "on a control plane: ccmadm status"
	return &found
}

func (e *evidence) noPod() *finding.Finding {
	label := v1alpha1.ComponentLabel + "=" + v1alpha1.Component
	if e.led() { // of another vendor, with labels of its own
		return nil
	}
	if e.unmanaged {
		return e.notExternal()
	}
	if kind, name, is := strings.Cut(e.workload, "/"); is {
		found := finding.NoPod.New("", e.workload+" is there, and has no pod")
		if e.notMade != "" {
			found.Message += "; its controller says: " + Shorten(e.notMade)
		}
		found.Do = "correct what keeps its controller from making the pod"
		namespace, name, _ := strings.Cut(name, "/")
		found.Next = "kubectl -n " + namespace + " describe " + strings.ToLower(kind) + " " + name
		return &found
	}
	found := finding.NoPod.New("", "no pod with label "+label+" is in "+v1alpha1.Namespace+
		": no cloud-controller-manager was installed, or no kubelet runs its static pod")
	found.Next = "kubectl get pods -A -o wide | grep -e cloud -e ccm"
	if e.recorded {
		found.Next = "ccmadm apply --force, then on that machine: journalctl -u kubelet | grep " + v1alpha1.Component
	}
	return &found
}

// notExternal is about a cluster that waits for no manager: what is wrong with its Nodes has other causes.
func (e *evidence) notExternal() *finding.Finding {
	found := finding.NoPod.New("", "this cluster is not in external cloud mode: ccmadm has no record of it, no "+
		"cloud-controller-manager runs, and "+e.leader.leaderless(e.now))
	found.Next = "to take it into external mode: ccmadm adopt --provider NAME --dry-run"
	return &found
}

// endsAgain is about a pod that runs at this moment, and has failed a moment ago: to the next look it may be waiting
// again.
func (e *evidence) endsAgain() *finding.Finding {
	for i := range e.pods {
		p := &e.pods[i]
		status := mainStatus(p)
		if status == nil || status.State.Running == nil || !failed(status, e.now) {
			continue
		}
		last := status.LastTerminationState.Terminated
		found := finding.CrashLoop.New("", withLine(fmt.Sprintf("pod %s restarts again and again (restarts: %d), %s",
			p.Name, status.RestartCount, termination(last)), e.lastWord(p)))
		found.Next = kubectl(p) + "logs --previous " + p.Name
		return &found
	}
	return nil
}

func (e *evidence) leaderCause(pod *corev1.Pod) *finding.Finding {
	message := "the cloud-controller-manager runs, but " + e.leader.leaderless(e.now)
	if last := lastRemark(e.allLines(), ""); last.line != "" {
		message += "; its last error: " + last.line
	}
	found := finding.NoLeader.New("", message)
	if e.leader.err != nil {
		found = finding.LeaseUnknown.New("", message)
	}
	found.Next = kubectl(pod) + "logs " + pod.Name
	return &found
}

var (
	// refused is how client-go, its informers, leader election and our own manager tell of a 401 from the API server. A
	// cloud's own 401 is told by its provider in other words.
	refused = regexp.MustCompile(
		`(failed to (list|watch) [^:]*|resource lock \S+|[Ff]ailed to update lock[^:]*|missing="ask for [^:"]*): Unauthorized\b` +
			`|(?i:(?:lease|resource) lock|failed to update l(?:ock|ease))".* err="Unauthorized\b` +
			`|You must be logged in to the server|the server has asked for the client to provide credentials`,
	)
	// accepted are lines after which it is over.
	accepted = regexp.MustCompile(`(?i:successfully acquired lease)|` + granted.String())
)

// unauthorized returns the line that says that the API server does not accept the manager's credentials.
func (e *evidence) unauthorized() string {
	for _, p := range e.pods {
		for _, line := range slices.Backward(e.logs[p.Name]) {
			if accepted.MatchString(line) {
				break
			}
			if refused.MatchString(line) {
				return Shorten(line)
			}
		}
	}
	return ""
}

func (e *evidence) unauthorizedCause(line string) *finding.Finding {
	found := finding.Unauthorized.New(
		"",
		"the API server does not accept the cloud-controller-manager's credentials: they have expired, "+
			"or are of another cluster: "+line,
	)
	found.Next = kubectl(&e.pods[0]) + "delete pod " + e.pods[0].Name
	if IsMirror(&e.pods[0]) {
		found.Next = "on " + e.pods[0].Spec.NodeName + ": ccmadm certs renew"
	}
	return &found
}

// withoutNodes returns the line by which a manager says that its node controller does not run. It never tries again.
func (e *evidence) withoutNodes() string {
	for _, line := range e.allLines() {
		if strings.Contains(line, "cloud provider does not support instances") ||
			strings.Contains(line, `Skipping "cloud-node-controller"`) {
			return Shorten(line)
		}
	}
	return ""
}

func isForbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
