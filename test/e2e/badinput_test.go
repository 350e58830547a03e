package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/minors"
)

// badInput is something a user gets wrong before there is a cluster. Nothing may change, and the message says where.
type badInput struct {
	name string
	// given prepares the machine; undo puts it right again.
	given, undo string
	// run defaults to a plain ccmadm init.
	run  string
	code int
	want []string
}

var badInputs = []badInput{
	{name: "malformed YAML", given: `printf 'kind: InitConfiguration\n  bad: [\n' > /tmp/k.yaml`, run: "ccmadm init --config /tmp/k.yaml", code: 2, want: []string{"/tmp/k.yaml:2"}},
	{name: "no such file", run: "ccmadm init --config /tmp/nothing.yaml", code: 2, want: []string{"/tmp/nothing.yaml", "no such file"}},
	{
		name: "an unknown field in our document", given: `printf 'apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\ncontrollerManager: {imag: x}\n' > /tmp/k.yaml`,
		run: "ccmadm init --config /tmp/k.yaml", code: 2, want: []string{"/tmp/k.yaml:3", `unknown field "controllerManager.imag"`},
	},
	{name: "an unknown provider", run: "ccmadm init --provider onpremm", code: 2, want: []string{"onpremm", "onprem"}},
	{name: "an unknown phase", run: "ccmadm init --skip-phases waits", code: 2, want: []string{"waits"}},
	{name: "an unknown flag", run: "ccmadm init --no-such", code: 2, want: []string{"no-such"}},
	{name: "an unknown flag for kubeadm", run: "ccmadm init -- --no-such", code: 2, want: []string{"no-such"}},
	{name: "flags mixed with a file", run: "ccmadm init --config " + kubeadmYAML + " --service-cidr 10.0.0.0/16", code: 2, want: []string{"can not mix '--config' with arguments [service-cidr]"}},
	{name: "kubeadm missing", given: "mv $(command -v kubeadm) /tmp/kubeadm.away", undo: "mv /tmp/kubeadm.away /usr/bin/kubeadm", code: 3, want: []string{"KubeadmVersion: kubeadm is not in the PATH"}},
	{name: "kubeadm too old", given: fakeKubeadm("v1.29.3"), undo: realKubeadm, code: 3, want: []string{"1.29.3 is too old", minors.Oldest()}},
	{name: "kubeadm too new", given: fakeKubeadm("v1.99.0"), undo: realKubeadm, code: 3, want: []string{"1.99.0 is too new", minors.Newest()}},
	{name: "not root", given: "cp /usr/local/bin/ccmadm /tmp/ccmadm && chmod 755 /tmp/ccmadm", run: "setpriv --reuid=65534 --regid=65534 --clear-groups /tmp/ccmadm init", code: 3, want: []string{"IsPrivilegedUser: not root"}},
	{
		name: "cloud-provider=aws in the file", given: `sed 's/^nodeRegistration:/&\n  kubeletExtraArgs: [{name: cloud-provider, value: aws}]/' ` + kubeadmYAML + ` > /tmp/k.yaml`,
		run: "ccmadm init --config /tmp/k.yaml", code: 3, want: []string{"/tmp/k.yaml:", "aws", "external"},
	},
	{name: "cloud-provider=aws among the kubelet's flags", given: "echo KUBELET_EXTRA_ARGS=--cloud-provider=aws > /etc/default/kubelet", undo: "rm /etc/default/kubelet", code: 3, want: []string{"/etc/default/kubelet:1: --cloud-provider=aws"}},
	{name: "a node IP of another machine", run: "ccmadm init --node-ip 203.0.113.9", code: 3, want: []string{"203.0.113.9 is not an address of this machine"}},
	{name: "routes from a provider without", given: `printf 'apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\nprovider: digitalocean\nroutes: true\n' > /tmp/k.yaml`, run: "ccmadm init --config /tmp/k.yaml", code: 3, want: []string{"routes", "digitalocean"}},
	{name: "an empty cloud config", given: ": > /tmp/cloud.conf", run: "ccmadm init --cloud-config /tmp/cloud.conf", code: 3, want: []string{"/tmp/cloud.conf is empty"}},
	{name: "an unreachable API server", run: "ccmadm join 198.18.255.254:6443 --token abcdef.0123456789abcdef --discovery-token-unsafe-skip-ca-verification", code: 3, want: []string{"198.18.255.254:6443"}},
	{name: "nothing to join", run: "ccmadm join", code: 3, want: []string{"no cluster to join", "ccmadm join HOST:PORT"}},
	{name: "a read-only /etc", given: "mount --bind /etc /etc && mount -o remount,ro,bind /etc", undo: "umount /etc", code: 3, want: []string{"read-only file system"}},
	{name: "a full disk", given: "mkdir -p /etc/ccmadm && mount -t tmpfs -o size=64k tmpfs /etc/ccmadm && head -c 64k /dev/zero > /etc/ccmadm/fill 2>/dev/null || true", undo: "umount /etc/ccmadm && rmdir /etc/ccmadm", code: 3, want: []string{"/etc/ccmadm", "full"}},
	{name: "a hand-edited manifest", given: "mkdir -p /etc/kubernetes/manifests && echo 'kind: Pod' > /etc/kubernetes/manifests/cloud-controller-manager.yaml", undo: "rm /etc/kubernetes/manifests/cloud-controller-manager.yaml", code: 3, want: []string{"edited by hand", "--force"}},
	{name: "a kubelet that runs", given: "mkdir -p /etc/kubernetes && touch /etc/kubernetes/kubelet.conf", undo: "rm /etc/kubernetes/kubelet.conf", code: 3, want: []string{"/etc/kubernetes/kubelet.conf exists", "reset"}},
}

const realKubeadm = "umount $(command -v kubeadm)"

// fakeKubeadm answers `kubeadm version` as another release would; there is no such release to install here.
func fakeKubeadm(version string) string {
	return "printf '#!/bin/sh\\necho " + version + "\\n' > /tmp/kubeadm && chmod 755 /tmp/kubeadm && mount --bind /tmp/kubeadm $(command -v kubeadm)"
}

// TestBadInput: what a user gets wrong on a bare machine changes nothing on it.
func TestBadInput(t *testing.T) {
	t.Parallel()
	l := up(t, "bad", 1, 0)
	l.must(t, "cp1", "ip route add unreachable 169.254.169.254") // nobody answers there: say so at once
	bare := l.must(t, "cp1", treeHash)
	for _, tc := range slices.Concat(badInputs, providerInputs) {
		t.Run(tc.name, func(t *testing.T) {
			if tc.given != "" {
				l.must(t, "cp1", tc.given)
			}
			before := l.must(t, "cp1", treeHash)
			run := tc.run
			if run == "" {
				run = ccmadmInit
			}
			r := l.sh(t, "cp1", run)
			after := l.must(t, "cp1", treeHash)
			if tc.undo != "" {
				l.must(t, "cp1", tc.undo)
			}
			t.Logf("$ %s\n%s", run, r.out)
			if r.code != tc.code {
				t.Errorf("exit status %d, want %d", r.code, tc.code)
			}
			for _, want := range tc.want {
				if !strings.Contains(r.out, want) {
					t.Errorf("the message lacks %q", want)
				}
			}
			if strings.Contains(r.out, "s3cret") {
				t.Error("a secret is in the output")
			}
			if after != before {
				t.Error("something below /etc or /var/lib/kubelet has changed")
			}
		})
	}
	if after := l.must(t, "cp1", treeHash); after != bare {
		t.Error("the machine is not bare any more")
	}
}

// TestBadJoin: what can be wrong once there is a cluster.
func TestBadJoin(t *testing.T) {
	t.Parallel()
	l := up(t, "badjoin", 1, 2)
	l.must(t, "cp1", ccmadmInit)
	join := l.joinCommand(t)
	f := strings.Fields(join) // ccmadm join HOST:PORT --token T --discovery-token-ca-cert-hash H ...
	id, secret, _ := strings.Cut(f[4], ".")
	for _, tc := range []badInput{
		{name: "an unknown token", run: strings.Replace(join, id, "zzzzzz", 1), code: 3, want: []string{"zzzzzz", "no such token", "kubeadm token create"}},
		{name: "a wrong token", run: strings.Replace(join, secret, "0000000000000000", 1), code: 3, want: []string{id, "second half is wrong"}},
		{name: "a wrong CA hash", run: strings.Replace(join, "sha256:", "sha256:00", 1), code: 3, want: []string{"hash"}},
		{name: "another provider", run: join + " --provider generic", code: 5, want: []string{"generic", `record says "onprem"`}},
		{name: "an unknown provider", run: join + " --provider onpremm", code: 2, want: []string{`did you mean "onprem"`}},
		{name: "a profile of its own", run: "ccmadm provider show aws -o yaml > /root/mine.yaml; " + join + " --profile /root/mine.yaml", code: 5, want: []string{"/root/mine.yaml", "not the profile of the cluster's record"}},
		{name: "another mode", run: join + " --mode DaemonSet", code: 5, want: []string{"DaemonSet", "StaticPod"}},
		{name: "another cluster name", run: join + " --cluster-name mine", code: 5, want: []string{"mine"}},
		{name: "the name of another machine", run: join + " --node-name cp1", code: 3, want: []string{`"cp1"`, "--node-name"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := l.must(t, "w1", treeHash)
			r := l.sh(t, "w1", tc.run)
			t.Logf("$ %s\n%s", tc.run, r.out)
			if r.code != tc.code {
				t.Errorf("exit status %d, want %d", r.code, tc.code)
			}
			for _, want := range tc.want {
				if !strings.Contains(r.out, want) {
					t.Errorf("the message lacks %q", want)
				}
			}
			if strings.Contains(r.out, secret) {
				t.Error("the token's secret half is in the output")
			}
			if after := l.must(t, "w1", treeHash); after != before {
				t.Error("something below /etc or /var/lib/kubelet has changed")
			}
		})
	}
	t.Run("a hand-edited manifest on a running control plane is kept", func(t *testing.T) {
		const manifest = "/etc/kubernetes/manifests/cloud-controller-manager.yaml"
		l.must(t, "cp1", "echo '# mine' >> "+manifest)
		edited := l.must(t, "cp1", "sha256sum "+manifest)
		r := l.sh(t, "cp1", "ccmadm init phase control-plane")
		if r.code != 5 || !strings.Contains(r.out, "edited by hand") || l.must(t, "cp1", "sha256sum "+manifest) != edited {
			t.Errorf("exit status %d, want 5, and the file kept:\n%s", r.code, r.out)
		}
		l.must(t, "cp1", "ccmadm init phase control-plane --force")
		if l.must(t, "cp1", "tail -n 1 "+manifest) == "# mine\n" {
			t.Error("--force has not replaced the manifest")
		}
	})
	t.Run("the API server dies half-way", func(t *testing.T) {
		l.must(t, "cp1", "mv /etc/kubernetes/manifests/kube-apiserver.yaml /tmp/; while pgrep kube-apiserver >/dev/null; do sleep 0.2; done")
		r := l.sh(t, "w2", join)
		if r.code == 0 || r.code == 2 || !strings.Contains(r.out, "6443") {
			t.Errorf("exit status %d; the message must name the API server:\n%s", r.code, r.out)
		}
		l.must(t, "cp1", "mv /tmp/kube-apiserver.yaml /etc/kubernetes/manifests/; until kubectl --kubeconfig /etc/kubernetes/admin.conf get --raw /readyz >/dev/null 2>&1; do sleep 0.5; done")
		l.must(t, "w2", join) // the same command again
	})
}

// TestImageMissing: the cloud-controller-manager cannot start, and ccmadm says so instead of timing out in silence.
func TestImageMissing(t *testing.T) {
	t.Parallel()
	l := up(t, "noimage", 1, 0)
	r := l.sh(t, "cp1", ccmadmInit+" --image registry.invalid/nothing:1 --timeout 20s")
	t.Logf("%s", r.out)
	if r.code != 4 {
		t.Errorf("exit status %d, want 4", r.code)
	}
	for _, want := range []string{"registry.invalid/nothing:1", "cp1", "Tainted"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("the message lacks %q", want)
		}
	}
	l.must(t, "cp1", ccmadmInit+" --timeout 60s") // a re-run with an image that exists is safe
	l.expectInitialized(t, "cp1")
}
