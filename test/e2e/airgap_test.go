package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReleasedAirGap: machines that reach no registry get a release's program and one archive of images, which the released ccmadm has
// saved from the release's folder. A cluster is made of them, leaves external cloud mode, is adopted, and goes to the next minor version;
// pods of ccmadm's own image do the last three on the nodes.
func TestReleasedAirGap(t *testing.T) {
	version := releasedVersion(t)
	step := stepTo(t, *kubernetesMinor)
	l := boot(t, "airgap", 1, 2, "--kubernetes", step.from)
	l.step = step
	program, archive := savedImages(t, version)
	for _, m := range l.nodes {
		if r := l.sh(t, m, "getent hosts ghcr.io registry.k8s.io; ctr -n k8s.io images ls -q | grep ccmadm"); r.code == 0 {
			t.Fatalf("machine %s reaches a registry, or has images of ccmadm: %s", m, r.out)
		}
		l.run(t, "cp", "--name", l.name, program, m+":/usr/local/bin/ccmadm")
		l.must(t, m, "chmod 755 /usr/local/bin/ccmadm")
	}
	l.run(t, "cp", "--name", l.name, archive, "cp1:/root/images.tar")

	// Without the images nothing is changed, and the command says what is missing. Packages of kubeadm bring crictl, by which it asks.
	l.install(t, "cp1", "sigs.k8s.io/cri-tools/cmd/crictl@v1.37.0", "crictl")
	if r := l.sh(t, "cp1", ccmadmInit); r.code == 0 || !strings.Contains(r.out, "images load") {
		t.Errorf("init without images: exit status %d\n%s", r.code, r.out)
	}
	l.must(t, "cp1", "! ls /etc/ccmadm/machine.yaml /etc/kubernetes/admin.conf 2>/dev/null; cd /root && ccmadm images load images.tar")
	if out := l.must(t, "cp1", "cd /root && ccmadm images load images.tar"); !strings.Contains(out, "unchanged") {
		t.Errorf("the second load prints\n%s", out)
	}
	join := joinLine(t, l.must(t, "cp1", ccmadmInit+" --mode DaemonSet --node-agent"))
	for _, m := range l.nodes[1:] {
		l.must(t, m, join)
	}
	l.serveSSH(t, "w1", "w2")
	t.Logf("%s", l.must(t, "cp1", "cd /root && ccmadm images load images.tar --via ssh --parallel 4"))
	l.kubectl(t, "-n kube-system rollout status daemonset/ccmadm-node-agent --timeout=240s")
	l.connectPods(t, l.nodes...)
	l.expectInitialized(t, l.nodes...)

	l.must(t, "cp1", "ccmadm leave --via pods --yes")
	t.Logf("%s", l.must(t, "cp1", "ccmadm adopt --provider onprem --via pods --yes"))
	l.expectInitialized(t, l.nodes...)

	l.bring(t, step.to)
	l.onEach(t, l.nodes, "mv /usr/bin/kubeadm.new /usr/bin/kubeadm")
	l.writeFiles(t, map[string]string{"/root/upgrade.yaml": upgradeConfiguration})
	t.Logf("%s", l.upgradeDespiteProxy(t, "cp1", step.apply()+" --config /root/upgrade.yaml --via pods"))
	l.expectInitialized(t, l.nodes...)
	if waiting := l.sh(t, "cp1", "kubectl --kubeconfig /etc/kubernetes/admin.conf get pods -A | grep -E 'ErrImagePull|ImagePullBackOff'"); waiting.code == 0 {
		t.Errorf("pods wait for images:\n%s", waiting.out)
	}
}

// savedImages are the released program, and the archive that it writes of the release's images.
func savedImages(t *testing.T, version string) (program, archive string) {
	t.Helper()
	folder := t.TempDir()
	program, archive = filepath.Join(folder, "ccmadm"), filepath.Join(folder, "images.tar")
	unpack := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(*distFolder, "ccmadm_"+version+"_linux_amd64.tar.gz"), "-C", folder)
	save := exec.CommandContext(t.Context(), program, "images", "save", "--provider", "onprem", "--from", *distFolder, "-o", archive)
	for _, cmd := range []*exec.Cmd{unpack, save} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	return program, archive
}
