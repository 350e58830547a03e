package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// managers gives cp1 a profile whose releases are one for each minor, and the machines that of 1.35. It returns the
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
  tags: {"1.35": v1.35.0, "1.36": v1.36.0}
  rule: one release for each minor version
modes:` + rest})
	archives := map[string]string{}
	for _, tag := range []string{"v1.35.0", "v1.36.0"} {
		archives[tag] = filepath.Join(t.TempDir(), tag+".tar")
		l.run(t, "image", "--name", "lab.local/ccm:"+tag, "--binary", "../../bin/cloud-controller-manager", "--user", "65532",
			"--output", archives[tag])
	}
	l.load(t, archives["v1.35.0"])
	return archives["v1.36.0"]
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
