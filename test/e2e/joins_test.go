package e2e

import (
	"strings"
	"testing"
)

// TestJoins: a cluster whose first machine has an explicit node IP and its certificates in a folder of its own. What
// holds for that machine alone stays there: a worker joins by token, a second control plane finds the certificates, and
// another worker finds the cluster by a file instead of a token.
func TestJoins(t *testing.T) {
	t.Parallel()
	l := up(t, "joins", 2, 2)
	l.must(t, "cp1", sharedEndpoint+` && sed 's|^controlPlaneEndpoint|certificatesDir: /etc/own/pki\n&|' /tmp/three.yaml > /tmp/own.yaml`)
	own := l.machineAddress(t, "cp1")
	out := l.must(t, "cp1", strings.Replace(ccmadmInit, kubeadmYAML, "/tmp/own.yaml", 1)+" --upload-certs --node-ip "+own)
	l.must(t, "cp1", "test -s /etc/own/pki/ca.key && test ! -e /etc/kubernetes/pki/ca.crt")
	join := l.joinCommand(t)

	words := strings.Fields(join) // ccmadm join HOST:PORT --token TOKEN --discovery-token-ca-cert-hash HASH ...
	if len(words) < 7 || words[3] != "--token" || words[5] != "--discovery-token-ca-cert-hash" {
		t.Fatalf("the join command is %q", join)
	}
	t.Run("a worker has a node IP of its own", func(t *testing.T) {
		l.joinByFile(t, "w1", `
  bootstrapToken: {apiServerEndpoint: '`+words[2]+`', token: `+words[4]+`, caCertHashes: ['`+words[6]+`']}`)
		l.expectInitialized(t, "cp1", "w1")
		if got, want := l.addresses(t, "cp1"), own; got != want {
			t.Errorf("node cp1 has the address %q, want the one given, %s", got, want)
		}
	})
	t.Run("a second control plane", func(t *testing.T) {
		asControlPlane := join + " --control-plane --certificate-key " + certificateKey(out)
		t.Logf("%s", l.must(t, "cp2", asControlPlane))
		l.expectInitialized(t, "cp1", "cp2")
		l.must(t, "cp2", "test -s /etc/own/pki/ca.key")
		l.must(t, "cp2", "kubectl --kubeconfig /etc/kubernetes/cloud-controller-manager.conf get nodes")
		l.must(t, "cp2", asControlPlane) // and again: nothing is left to do
	})
	t.Run("a worker with a discovery file", func(t *testing.T) {
		info := l.kubectl(t, "-n kube-public get configmap cluster-info -o jsonpath={.data.kubeconfig}")
		l.must(t, "w2", "cat > /tmp/discovery.conf <<'END'\n"+info+"\nEND")
		l.joinByFile(t, "w2", `
  file: {kubeConfigPath: /tmp/discovery.conf}
  tlsBootstrapToken: `+words[4])
		l.expectInitialized(t, "w2")
	})
	l.expectCluster(t, "cp1", "cp2", "w1", "w2")
}

// joinByFile makes a worker of a machine. kubeadm tells a worker's kubelet the folder of the control plane's
// certificates, and the administrator tells kubeadm to put the CA there.
func (l *lab) joinByFile(t *testing.T, node, discovery string) {
	t.Helper()
	l.must(t, node, "cat > /tmp/join.yaml <<'END'\n"+`apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
caCertPath: /etc/own/pki/ca.crt
discovery:`+discovery+"\nEND")
	t.Logf("%s", l.must(t, node, "ccmadm join --config /tmp/join.yaml "+ignore))
	if got, want := l.addresses(t, node), l.machineAddress(t, node); got != want {
		t.Errorf("node %s has the address %q, want its machine's, %s", node, got, want)
	}
}

// TestExternalCA: the key of the cluster's CA is elsewhere. Without an identity for the cloud-controller-manager
// nothing is begun; with one that the CA's owner has signed, the cluster comes up. Later the key is there.
func TestExternalCA(t *testing.T) {
	t.Parallel()
	l := up(t, "external-ca", 1, 0)
	const user = "system:cloud-controller-manager"
	for _, phase := range []string{"certs", "kubeconfig"} {
		l.must(t, "cp1", "kubeadm init phase "+phase+" all --config "+kubeadmYAML)
	}
	l.must(t, "cp1", "kubeadm kubeconfig user --client-name "+user+" --config "+kubeadmYAML+" > /root/ccm.conf")
	l.must(t, "cp1", "mv /etc/kubernetes/pki/ca.key /etc/kubernetes/pki/front-proxy-ca.key /root/")

	before := l.must(t, "cp1", treeHash)
	r := l.sh(t, "cp1", ccmadmInit)
	for _, words := range []string{"ca.key", user, managerConf} {
		if !strings.Contains(r.out, words) {
			t.Errorf("the output does not say %s", words)
		}
	}
	if r.code != 3 {
		t.Errorf("exit status %d, want 3", r.code)
	}
	if after := l.must(t, "cp1", treeHash); after != before {
		t.Error("a refused init changed files")
	}
	if t.Failed() {
		t.Fatalf("without an identity:\n%s", r.out)
	}
	l.must(t, "cp1", "install -m 600 /root/ccm.conf "+managerConf)
	t.Logf("%s", l.must(t, "cp1", ccmadmInit))
	l.must(t, "cp1", "cmp /root/ccm.conf "+managerConf)
	l.expectInitialized(t, "cp1")
	l.expectRefusedRenewal(t)
	l.must(t, "cp1", "mv /root/ca.key /etc/kubernetes/pki/")
	l.expectRenewals(t, user)
}

// machineAddress is what the machine itself says.
func (l *lab) machineAddress(t testing.TB, node string) string {
	t.Helper()
	return strings.TrimSpace(l.must(t, node, "ip -4 -o address show dev eth0 | awk '{split($4, a, \"/\"); print a[1]}'"))
}
