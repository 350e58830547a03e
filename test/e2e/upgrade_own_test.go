package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// firstRelease is a commit of the first day, and firstMinor the newest minor version of Kubernetes that it knows.
const firstRelease, firstMinor = "c7c6fa6", "1.36"

// TestUpgrade_OfCcmadm: clusters that the ccmadm of the first day has made are taken on by this one. It reads their
// record, comes to rest, lets machines join, and takes them apart. Builds that ccmadm from the repository's history.
func TestUpgrade_OfCcmadm(t *testing.T) {
	t.Parallel()
	old := buildFirst(t)
	for _, mode := range []string{"StaticPod", "DaemonSet"} {
		t.Run(mode, func(t *testing.T) { takenOn(t, old, mode) })
	}
}

// first are programs of firstRelease, and an archive of its image.
type first struct{ ccmadm, image string }

func buildFirst(t *testing.T) first {
	t.Helper()
	dir := t.TempDir()
	sh := func(script string) {
		t.Helper()
		var out bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-ec", script)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "DIR="+dir, "FIRST="+firstRelease)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			t.Fatalf("build ccmadm of %s, for which its history is needed: %v\n%s", firstRelease, err, &out)
		}
	}
	sh(`git -C ../.. archive $FIRST | tar -x -C "$DIR"`)
	sh(`cd "$DIR"; for c in ccmadm cloud-controller-manager; do
go build -ldflags "-s -w -X main.version=$FIRST" -o bin/$c ./cmd/$c
done`)
	image := filepath.Join(dir, "ccm.tar")
	build := exec.CommandContext(t.Context(), labBinary, "image",
		"--name", "ghcr.io/ccmadm/cloud-controller-manager:"+firstRelease,
		"--binary", filepath.Join(dir, "bin/cloud-controller-manager"), "--user", "65532", "--output", image)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("lab image: %v\n%s", err, out)
	}
	return first{ccmadm: filepath.Join(dir, "bin/ccmadm"), image: image}
}

func takenOn(t *testing.T, old first, mode string) {
	l := up(t, "first-"+strings.ToLower(mode), 1, 2, "--kubernetes", firstMinor, "--image", old.image)
	for _, node := range []string{"cp1", "w1"} {
		l.must(t, node, "mv /usr/local/bin/ccmadm /root/ccmadm.new")
		l.run(t, "cp", "--name", l.name, old.ccmadm, node+":/usr/local/bin/ccmadm")
	}
	begin := ccmadmInit + " --mode " + mode
	l.must(t, "cp1", begin)
	l.must(t, "w1", l.joinCommand(t))
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1")
	ids := l.providerIDs(t, "cp1", "w1")
	for _, node := range []string{"cp1", "w1"} {
		l.must(t, node, "mv /root/ccmadm.new /usr/local/bin/ccmadm")
	}

	record := l.kubectl(t, "-n kube-system get configmap ccmadm-config -o yaml")
	for _, command := range []string{"status", "doctor", "upgrade plan", "diff"} { // what only looks
		if r := l.sh(t, "cp1", "ccmadm "+command); r.code != 0 && r.code != 6 || strings.Contains(r.out, "panic") {
			t.Errorf("ccmadm %s: exit status %d\n%s", command, r.code, r.out)
		}
	}
	if after := l.kubectl(t, "-n kube-system get configmap ccmadm-config -o yaml"); after != record {
		t.Errorf("the record was changed by looking at it:\n%s", after)
	}
	if r := l.sh(t, "cp1", begin); r.code != 0 && r.code != 3 && r.code != 5 {
		t.Errorf("init again: exit status %d\n%s", r.code, r.out)
	}

	start := time.Now()
	out := l.expectApplied(t, "cp1", "")
	t.Logf("apply, %.1f s:\n%s", time.Since(start).Seconds(), out)
	if out = l.must(t, "cp1", "ccmadm apply"); strings.Contains(out, "written") || strings.Contains(out, "configured") {
		t.Errorf("the second run writes:\n%s", out)
	}
	// Its image is the record's until an upgrade brings another, and works with what was applied anew.
	l.must(t, "cp1", "ccmadm status")
	l.must(t, "w2", l.joinCommand(t))
	l.kubectl(t, "wait --for=create --timeout=240s node/w2")
	eventually(t, time.Minute, "the machine that joined is initialized", func() bool {
		return initialized(l.nodesNow(t)["w2"]) == ""
	})
	for node, id := range l.providerIDs(t, "cp1", "w1") {
		if id != ids[node] {
			t.Errorf("provider ID of %s is %s, was %s", node, id, ids[node])
		}
	}
	l.expectInitialized(t, "cp1", "w1", "w2")
	for _, node := range []string{"w1", "cp1"} {
		l.must(t, node, "ccmadm reset --force")
		if r := l.sh(t, node, "ls -A /etc/ccmadm /etc/systemd/system/kubelet.service.d 2>/dev/null | grep -e yaml -e env -e ccmadm.conf; "+
			"ls /etc/kubernetes/*cloud* /etc/kubernetes/manifests/*cloud* 2>/dev/null"); strings.TrimSpace(r.out) != "" {
			t.Errorf("%s: after reset there is\n%s", node, r.out)
		}
	}
}

func (l *lab) providerIDs(t *testing.T, names ...string) map[string]string {
	t.Helper()
	ids, nodes := map[string]string{}, l.nodesNow(t)
	for _, name := range names {
		ids[name] = nodes[name].Spec.ProviderID
	}
	return ids
}
