package e2e

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// web is the machine that is github.com and ghcr.io for the others.
const web = clientMachine

// TestReleased has machines without Go, git, source and ccmadm follow README.md and the pages install and verify-a-release word for
// word. What they download is a folder that `make release` wrote: the files at github.com, the images at ghcr.io.
func TestReleased(t *testing.T) {
	version := releasedVersion(t)
	for _, key := range []string{"cosign.pub", "ccmadm-archive-keyring.asc"} {
		if _, err := os.Stat(filepath.Join(*distFolder, key)); err != nil {
			t.Fatalf("%v: the release is not signed; docs/contributing/releasing.md names the keys", err)
		}
	}
	l := boot(t, "released", 1, 3)
	l.publish(t, version)
	for _, m := range []string{"cp1", "w1", "w2"} {
		if r := l.sh(t, m, "command -v go git ccmadm || ls -d /usr/local/go"); r.code == 0 {
			t.Fatalf("machine %s has what a user has to install, or need not have: %s", m, r.out)
		}
	}
	t.Run("README", func(t *testing.T) { l.followReadme(t, version) })
	t.Run("verify", func(t *testing.T) { l.followVerify(t, version) })
	t.Run("cosign", func(t *testing.T) { l.followCosign(t, version) })
	t.Run("krew", func(t *testing.T) { l.followKrew(t, version) })
	t.Run("deb", func(t *testing.T) { l.followDeb(t, version) })
}

// releasedVersion is that of the folder that -dist names.
func releasedVersion(t *testing.T) string {
	t.Helper()
	if *distFolder == "" {
		t.Fatal("-dist names no release: make release VERSION=v0.1.0-rc.1, then make release-machines")
	}
	sums, err := os.ReadFile(filepath.Join(*distFolder, "SHA256SUMS"))
	if err != nil {
		t.Fatalf("%v: make release VERSION=v0.1.0-rc.1 writes it", err)
	}
	found := regexp.MustCompile(`(?m) ccmadm_(v\S+)_linux_amd64\.tar\.gz$`).FindSubmatch(sums)
	if found == nil {
		t.Fatalf("SHA256SUMS of %s lists no ccmadm for linux/amd64:\n%s", *distFolder, sums)
	}
	return string(found[1])
}

// publish serves the release at the addresses of the real one, and has the other machines find it there and trust its certificate.
func (l *lab) publish(t *testing.T, version string) {
	t.Helper()
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	local := httptest.NewServer(images)
	t.Cleanup(local.Close)
	push := exec.CommandContext(t.Context(), "go", "-C", "../../release", "run", ".", "push", *distFolder,
		"--version", version, "--registry", strings.TrimPrefix(local.URL, "http://")+"/ccmadm")
	if out, err := push.CombinedOutput(); err != nil {
		t.Fatalf("push the images of %s: %v\n%s", *distFolder, err, out)
	}

	files := http.NewServeMux()
	for _, prefix := range []string{"/ccmadm/ccmadm/releases/latest/download/", "/ccmadm/ccmadm/releases/download/" + version + "/"} {
		files.Handle(prefix, http.StripPrefix(prefix, http.FileServer(http.Dir(*distFolder))))
	}
	_, authority := l.serveTLS(t, web, net.JoinHostPort(l.address(t, web), "443"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "ghcr.io" {
			images.ServeHTTP(w, r)
			return
		}
		files.ServeHTTP(w, r)
	}), "github.com", "ghcr.io")

	archives := strings.TrimSpace(labOutput(t, "packages", "curl", "ca-certificates", "less", "sudo", "openssl", "jq", "apt"))
	for _, m := range []string{"cp1", "w1", "w2"} {
		l.run(t, "cp", "--name", l.name, archives, m+":/tmp/packages")
		l.putOn(t, m, "/usr/local/share/ca-certificates/web.crt", authority)
		l.must(t, m, "DEBIAN_FRONTEND=noninteractive dpkg -i /tmp/packages/*.deb && update-ca-certificates && "+
			"echo '"+l.address(t, web)+" github.com ghcr.io' >> /etc/hosts && systemctl restart containerd")
	}
}

// The first screen of README.md. docs/blocks_test.go compares.
const (
	readmeInstall = `curl -fLO https://github.com/ccmadm/ccmadm/releases/latest/download/install.sh
less install.sh
sudo sh install.sh`
	readmeInit   = `ccmadm init --routes --pod-network-cidr 10.244.0.0/16`
	readmeStatus = `ccmadm status`
)

// followReadme installs on two machines, and makes a cluster of them with images from the registry.
func (l *lab) followReadme(t *testing.T, version string) {
	t.Helper()
	for _, m := range []string{"cp1", "w1"} {
		if out := l.must(t, m, "set -e\n"+readmeInstall); !strings.Contains(out, "ccmadm "+version+" installed to /usr/local/bin/ccmadm") {
			t.Fatalf("%s: install.sh printed\n%s", m, out)
		}
	}
	// The one word that differs: machines of the lab have cgroup v1, which kubelets take by their configuration only.
	init := strings.Replace(readmeInit, "--pod-network-cidr 10.244.0.0/16", "--config "+kubeadmYAML+" "+ignore, 1)
	join := joinLine(t, l.must(t, "cp1", init))
	if !regexp.MustCompile(`^ccmadm join \S+:6443 --token \S+ --discovery-token-ca-cert-hash sha256:\S+`).MatchString(join) {
		t.Fatalf("init prints another line for workers than README.md: %s", join)
	}
	l.must(t, "w1", join)
	l.expectInitialized(t, "cp1", "w1")
	status := l.must(t, "cp1", readmeStatus)
	for _, m := range []string{"cp1", "w1"} {
		if !strings.Contains(status, m) {
			t.Errorf("ccmadm status does not show %s:\n%s", m, status)
		}
	}
	l.kubectl(t, "-n kube-system rollout status daemonset/ccmadm-node-agent --timeout=240s")
	for _, image := range []string{"cloud-controller-manager", "node-agent"} {
		if found := l.must(t, "cp1", "ctr -n k8s.io images ls -q"); !strings.Contains(found, "ghcr.io/ccmadm/"+image+":"+version) {
			t.Errorf("image %s of %s was not pulled:\n%s", image, version, found)
		}
	}
}

// The commands of docs/tasks/verify-a-release.md, up to cosign's.
const (
	verifyDownload = `URL=https://github.com/ccmadm/ccmadm/releases/download/$VERSION
curl -fLO $URL/SHA256SUMS -fLO $URL/ccmadm_${VERSION}_linux_amd64.tar.gz`
	verifyKeys = `curl -fLO $URL/cosign.pub -fLO $URL/ccmadm-archive-keyring.asc &&
  grep " cosign.pub\$" SHA256SUMS | sha256sum --check --strict &&
  grep " ccmadm-archive-keyring.asc\$" SHA256SUMS | sha256sum --check --strict`
	verifySignature = `curl -fLO $URL/SHA256SUMS.sig
openssl base64 -d -A -in SHA256SUMS.sig -out SHA256SUMS.der
openssl dgst -sha256 -verify cosign.pub -signature SHA256SUMS.der SHA256SUMS`
	verifySums       = `grep " ccmadm_${VERSION}_linux_amd64.tar.gz\$" SHA256SUMS | sha256sum --check --strict`
	verifyProvenance = `curl -fLO $URL/ccmadm_${VERSION}_provenance.json
grep " ccmadm_${VERSION}_provenance.json\$" SHA256SUMS | sha256sum --check --strict
jq .predicate.buildDefinition.resolvedDependencies ccmadm_${VERSION}_provenance.json`
	verifySBOM = `curl -fLO $URL/ccmadm_${VERSION}_linux_amd64.tar.gz.spdx.json
grep " ccmadm_${VERSION}_linux_amd64.tar.gz.spdx.json\$" SHA256SUMS | sha256sum --check --strict
jq -r '.packages[].externalRefs[]?.referenceLocator' ccmadm_${VERSION}_linux_amd64.tar.gz.spdx.json`
)

// verifying has commands follow the download of the page.
func verifying(version string, list ...string) string {
	return "set -e; cd /root/verify; VERSION=" + version + "\n" + verifyDownload + "\n" + strings.Join(list, "\n")
}

// followVerify verifies what was downloaded, and again each file after one byte of it was changed.
func (l *lab) followVerify(t *testing.T, version string) {
	t.Helper()
	l.must(t, "w2", "mkdir -p /root/verify")
	out := l.must(t, "w2", verifying(version, verifyKeys, verifySignature, verifySums, verifyProvenance, verifySBOM))
	for _, want := range []string{
		"cosign.pub: OK", "ccmadm-archive-keyring.asc: OK", "Verified OK", "ccmadm_" + version + "_linux_amd64.tar.gz: OK", "_provenance.json: OK", ".spdx.json: OK", "pkg:golang/k8s.io/client-go@",
		`"gitCommit"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in what the commands of the page print:\n%.3000s", want, out)
		}
	}
	// The page's commands without its downloads, which would bring the true file again.
	all := strings.Join([]string{"VERSION=" + version, verifySignature, verifySums, verifyProvenance, verifySBOM}, "\n")
	checks := regexp.MustCompile(`(?m)^curl .*\n`).ReplaceAllString(all, "")
	for _, file := range []string{
		"SHA256SUMS", "SHA256SUMS.der", "ccmadm_" + version + "_linux_amd64.tar.gz", "ccmadm_" + version + "_provenance.json",
		"ccmadm_" + version + "_linux_amd64.tar.gz.spdx.json",
	} {
		flip := fmt.Sprintf(`at=$(( $(stat -c %%s %[1]s) / 2 )); byte=$(od -An -tu1 -j $at -N 1 %[1]s); `+
			`printf "\\$(printf %%o $((byte ^ 1)))" | dd of=%[1]s bs=1 seek=$at conv=notrunc status=none`, file)
		checked := checks
		if file == "SHA256SUMS.der" {
			checked = strings.ReplaceAll(checks, "openssl base64 -d -A -in SHA256SUMS.sig -out SHA256SUMS.der\n", "")
		}
		r := l.sh(t, "w2", "set -e; rm -rf /root/changed; cp -r /root/verify /root/changed; cd /root/changed; "+flip+"\n"+checked)
		if r.code == 0 || !strings.Contains(r.out, "Verification failure") && !strings.Contains(r.out, file+": FAILED") {
			t.Errorf("%s with another byte: exit status %d\n%s", file, r.code, r.out)
		}
	}
}

// The commands of docs/tasks/verify-a-release.md that verify by key with cosign.
const (
	cosignSums = `curl -fLO $URL/SHA256SUMS.sigstore.json
cosign trusted-root create --out trusted_root.json
cosign verify-blob --key cosign.pub --bundle SHA256SUMS.sigstore.json --trusted-root trusted_root.json \
  --insecure-ignore-tlog=true SHA256SUMS`
	cosignProvenance = `curl -fLO $URL/ccmadm_${VERSION}_provenance.sigstore.json
cosign verify-blob-attestation --key cosign.pub --bundle ccmadm_${VERSION}_provenance.sigstore.json \
  --trusted-root trusted_root.json --type slsaprovenance1 --insecure-ignore-tlog=true ccmadm_${VERSION}_linux_amd64.tar.gz`
)

// followCosign verifies with cosign itself, of its Go module.
func (l *lab) followCosign(t *testing.T, version string) {
	t.Helper()
	l.install(t, "w2", "github.com/sigstore/cosign/v2/cmd/cosign@v2.6.5", "cosign")
	for _, command := range []string{cosignSums, cosignProvenance} {
		if out := l.must(t, "w2", verifying(version, command)); !strings.Contains(out, "Verified OK") {
			t.Errorf("cosign printed\n%s", out)
		}
	}
	last := regexp.MustCompile(`(?s)cosign .*`)
	for file, command := range map[string]string{
		"SHA256SUMS": last.FindString(cosignSums), "ccmadm_" + version + "_linux_amd64.tar.gz": last.FindString(cosignProvenance),
	} {
		if r := l.sh(t, "w2", verifying(version, "echo >> "+file, command)); r.code == 0 || strings.Contains(r.out, "Verified OK") {
			t.Errorf("cosign took %s with one byte more:\n%s", file, r.out)
		}
	}
}

// install builds a program from its Go module, and copies it to a machine under a name.
func (l *lab) install(t *testing.T, machine, module, name string) {
	t.Helper()
	folder := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "install", module)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOBIN="+folder)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go install %s: %v\n%s", module, err, out)
	}
	base, _, _ := strings.Cut(filepath.Base(module), "@")
	l.run(t, "cp", "--name", l.name, filepath.Join(folder, base), machine+":/usr/local/bin/"+name)
	l.must(t, machine, "chmod 755 /usr/local/bin/"+name)
}

// installKrew is the command of docs/tasks/install.md for krew.
const installKrew = `curl -fLO https://github.com/ccmadm/ccmadm/releases/latest/download/ccmadm.krew.yaml
kubectl krew install --manifest=ccmadm.krew.yaml`

// followKrew installs the plugin with krew itself, of its Go module.
func (l *lab) followKrew(t *testing.T, version string) {
	t.Helper()
	l.install(t, "w2", "sigs.k8s.io/krew/cmd/krew@v0.4.3", "kubectl-krew")
	out := l.must(t, "w2", "set -e; cd /root\n"+installKrew+"\nPATH=$HOME/.krew/bin:$PATH kubectl ccmadm version")
	if !strings.Contains(out, version) {
		t.Errorf("no %s in what kubectl ccmadm version prints:\n%s", version, out)
	}
}

// The commands of docs/tasks/install.md for Debian.
const (
	installDeb = `curl -fLO $URL/ccmadm_${VERSION#v}_amd64.deb &&
  grep " ccmadm_${VERSION#v}_amd64.deb\$" SHA256SUMS | sha256sum --check --strict &&
  sudo apt-get install ./ccmadm_${VERSION#v}_amd64.deb &&
  sudo apt-mark hold ccmadm`
	installApt = `sudo install -m 644 ccmadm-archive-keyring.asc /usr/share/keyrings/
URL=https://github.com/ccmadm/ccmadm/releases/download/$VERSION
echo "deb [signed-by=/usr/share/keyrings/ccmadm-archive-keyring.asc] $URL/ ./" | sudo tee /etc/apt/sources.list.d/ccmadm.list
sudo apt-get update && sudo apt-get install ccmadm=${VERSION#v} && sudo apt-mark hold ccmadm`
)

// followDeb installs the package, removes it, and installs it from the folder as a repository of apt; no unit is enabled or runs.
func (l *lab) followDeb(t *testing.T, version string) {
	t.Helper()
	l.must(t, "w2", "mkdir -p /root/verify")
	// The machine reaches no other source.
	l.must(t, "w2", "mkdir -p /root/apt && mv /etc/apt/sources.list* /root/apt/ 2>/dev/null; mkdir -p /etc/apt/sources.list.d")
	installed := "ccmadm version && test -x /usr/bin/ccmadm && dpkg -L ccmadm && " +
		"for unit in $(dpkg -L ccmadm | grep -o 'ccmadm[^/]*[.]\\(service\\|timer\\)$' | grep -v @); do " +
		"[ \"$(systemctl is-enabled $unit)\" != enabled ] || exit 3; ! systemctl --quiet is-active $unit || exit 4; done"
	// What the page says of candidates: it differs for them alone.
	byVersion := strings.Replace(installApt, "=${VERSION#v}", "="+strings.Replace(strings.TrimPrefix(version, "v"), "-", "~", 1), 1)
	for _, way := range []string{installDeb, byVersion} {
		out := l.must(t, "w2", "export DEBIAN_FRONTEND=noninteractive; "+verifying(version, verifyKeys, way, installed))
		for _, want := range []string{version, "/usr/share/man/man1/ccmadm.1.gz", "bash-completion"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%.3000s", want, out)
			}
		}
		l.must(t, "w2", "DEBIAN_FRONTEND=noninteractive apt-get purge -y --allow-change-held-packages ccmadm")
		if r := l.sh(t, "w2", "command -v ccmadm || ls -d /usr/share/doc/ccmadm /usr/lib/systemd/system/ccmadm*"); r.code == 0 {
			t.Errorf("the package was removed, and left\n%s", r.out)
		}
	}
	// A signed list of an older release names another file: that is no verification, and nothing is installed.
	replay := "sed -i s/" + strings.TrimPrefix(version, "v") + "/0.0.1/ SHA256SUMS\n" + installDeb
	if r := l.sh(t, "w2", "export DEBIAN_FRONTEND=noninteractive; "+verifying(version, replay)+"\ndpkg -s ccmadm"); r.code == 0 {
		t.Errorf("a package that the list does not name is installed:\n%s", r.out)
	}
	// Another key is refused, and nothing is installed.
	l.must(t, "w2", "sed -i 's/ccmadm-archive-keyring.asc/debian-archive-keyring.gpg/' /etc/apt/sources.list.d/ccmadm.list")
	r := l.sh(t, "w2", "rm -rf /var/lib/apt/lists/*; apt-get update; apt-get install -y ccmadm")
	if r.code == 0 || !strings.Contains(r.out, "NO_PUBKEY") {
		t.Errorf("apt took a repository that another key signs: exit status %d\n%s", r.code, r.out)
	}
}
