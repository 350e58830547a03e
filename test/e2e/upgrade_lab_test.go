package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/ccmadm/ccmadm/api/minors"
)

// minorStep is an upgrade from a minor version to the next.
type minorStep struct {
	before           string // the release of from's kubeadm
	from, to, beyond string // minor versions that follow each other
	version          string // of to's kubeadm
	gate             string // what kubelets of from know, and kubelets of to end with
}

// stepTo is the step to a minor version that the lab builds; all but the oldest have one.
func stepTo(t *testing.T, minor string) minorStep {
	t.Helper()
	history := minors.Load()
	for i, e := range history {
		if i == 0 || e.Name != minor {
			continue
		}
		from := history[i-1]
		s := minorStep{before: from.Kubernetes, from: from.Name, to: minor, version: e.Kubernetes}
		var number int
		if _, err := fmt.Sscanf(minor, "1.%d", &number); err != nil {
			t.Fatal(err)
		}
		s.beyond = fmt.Sprintf("1.%d", number+1)
		s.gate = removedGate(t, "kubelet", s)
		return s
	}
	t.Fatalf("no minor version is known from which to upgrade to %s", minor)
	return minorStep{}
}

func (s minorStep) apply() string { return "ccmadm upgrade apply " + s.version }

// made lets a command make a cluster of the minor version before, where ccmadm only upgrades from that one.
func (s minorStep) made(command string) string {
	if slices.Contains(minors.Supported(), s.from) {
		return command
	}
	return strings.Replace(command, ignore, ignore+",KubeadmVersion", 1)
}

// plan leaves out kubeadm's own, which is of the minor version before.
func (s minorStep) plan() string { return "ccmadm upgrade plan " + s.version + " --without-kubeadm" }

// former and next are the manager's releases.
func (s minorStep) former() string { return "v" + s.from + ".0" }
func (s minorStep) next() string   { return "v" + s.to + ".0" }

// upOld boots machines of the minor version before the one that is asked for, to which they are upgraded.
func upOld(t *testing.T, name string, controlPlanes, workers int, flags ...string) *lab {
	t.Helper()
	s := stepTo(t, *kubernetesMinor)
	t.Logf("from %s to %s", s.from, s.version)
	l := up(t, name, controlPlanes, workers, append([]string{"--kubernetes", s.from}, flags...)...)
	l.step = s
	return l
}

// managers gives cp1 a profile whose releases are one for each minor, and the machines the former. It returns the
// archive of the next.
func (l *lab) managers(t *testing.T) (next string) {
	t.Helper()
	source, err := os.ReadFile("../../templates/profiles/onprem.yaml")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(source), "\nmodes:")
	head, _, _ = strings.Cut(head, "\nimage:")
	l.writeFiles(t, map[string]string{"/root/profile.yaml": head + `
image:
  repository: lab.local/ccm
  tags: {"` + l.step.from + `": ` + l.step.former() + `, "` + l.step.to + `": ` + l.step.next() + `}
  rule: one release for each minor version
modes:` + rest})
	archives := map[string]string{}
	for _, tag := range []string{l.step.former(), l.step.next()} {
		archives[tag] = filepath.Join(t.TempDir(), tag+".tar")
		l.run(t, "image", "--name", "lab.local/ccm:"+tag, "--binary", "../../bin/cloud-controller-manager", "--user", "65532",
			"--output", archives[tag])
	}
	l.load(t, archives[l.step.former()])
	return archives[l.step.next()]
}

// beforeUpgrade makes a cluster of all machines, with audit logs, and brings them what they are upgraded to.
func (l *lab) beforeUpgrade(t *testing.T, initFlags string) {
	t.Helper()
	controlPlanes := l.controlPlanes()
	l.onEach(t, controlPlanes, withAudit)
	l.must(t, "cp1", strings.Replace(sharedEndpoint, kubeadmYAML, "/etc/lab/audited.yaml", 1))
	out := l.must(t, "cp1", strings.Replace(l.step.made(ccmadmInit), kubeadmYAML, "/tmp/three.yaml", 1)+
		" --upload-certs --profile /root/profile.yaml"+initFlags)
	join := l.step.made(l.joinCommand(t))
	for _, node := range l.nodes[1:] {
		command := join
		if slices.Contains(controlPlanes, node) {
			command += " --control-plane --certificate-key " + certificateKey(out)
		}
		l.must(t, node, command)
	}
	l.connectPods(t, l.nodes...)
	l.bring(t, l.step.to)
	l.onEach(t, controlPlanes, "cat > /root/upgrade.yaml <<'END'\n"+upgradeConfiguration+"END")
}

func (l *lab) controlPlanes() []string {
	return slices.DeleteFunc(slices.Clone(l.nodes), func(node string) bool { return !strings.HasPrefix(node, "cp") })
}

func (l *lab) load(t *testing.T, archives ...string) {
	t.Helper()
	l.run(t, append([]string{"load", "--name", l.name}, archives...)...)
}

// expectLedThroughout reads from audit logs how long the manager's Lease was not renewed while an API server answered
// somebody: one that is alone and restarts renews nobody's.
func (l *lab) expectLedThroughout(t *testing.T, start time.Time, limit time.Duration, nodes ...string) {
	t.Helper()
	time.Sleep(3 * time.Second)
	var answers, renewals []time.Time
	for _, node := range nodes {
		for _, e := range l.auditEventsOf(t, node) {
			at := e.StageTimestamp.Time
			answered := e.Stage == auditv1.StageResponseComplete && e.ResponseStatus != nil && e.ResponseStatus.Code < 300
			if at.Before(start) || !answered {
				continue
			}
			answers = append(answers, at)
			if w, is := managerWrite(node, &e); is && w.lease {
				renewals = append(renewals, at)
			}
		}
	}
	longest, down := longestUnled(answers, renewals)
	t.Logf("%d renewals, longest time without one while an API server answered %.1f s, none answered for %.1f s at most",
		len(renewals), longest.Seconds(), down.Seconds())
	if longest > limit || len(renewals) < 10 {
		t.Errorf("without a renewal for %s, %d renewals", longest, len(renewals))
	}
}

// bring has machines load the images of another minor, and lays its programs beside theirs, as NAME.new.
func (l *lab) bring(t *testing.T, minor string) {
	t.Helper()
	printed, err := exec.CommandContext(t.Context(), labBinary, "release", minor).Output()
	if err != nil {
		t.Fatalf("lab release %s: %v", minor, err)
	}
	release := strings.TrimSpace(string(printed))
	archives, err := filepath.Glob(release + "/*.tar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("archives of %s: %v, %v", release, archives, err)
	}
	l.load(t, archives...)
	for _, node := range l.nodes {
		for _, program := range []string{"kubeadm", "kubelet", "kubectl"} {
			l.run(t, "cp", "--name", l.name, release+"/"+program, node+":/usr/bin/"+program+".new")
		}
	}
}

// expectSaid looks for what a run has to say.
func expectSaid(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains(out, line) {
			t.Errorf("%q was not said", line)
		}
	}
}
