package kubeadm

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestKubeadmFile_Init(t *testing.T) {
	f := parseFile(t, "k.yaml", []byte(`apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration:
  name: cp-1
  criSocket: unix:///run/crio/crio.sock
  kubeletExtraArgs:
  - {name: v, value: "1"}
  - {name: v, value: "2"}
localAPIEndpoint: {advertiseAddress: 10.0.0.1, bindPort: 7443}
skipPhases: [addon/kube-proxy, show-join-command]
---
apiVersion: kubeadm.k8s.io/v1beta3
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
clusterName: &name ber1
controlPlaneEndpoint: lb.example.com:6443
certificatesDir: /pki
networking:
  <<: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.0.0.0/8}
  serviceSubnet: 10.96.0.0/12
  dnsDomain: *name
`))
	got := map[string]any{
		"name":    f.NodeName(RoleInit),
		"address": f.AdvertiseAddress(RoleInit), "port": f.BindPort(RoleInit), "skip": f.SkipPhases(RoleInit),
		"pods": f.PodSubnet(), "certs": f.CertificatesDir(),
		"version": f.KubernetesVersion(), "cluster": f.ClusterName(),
		"joins": f.JoinsControlPlane(), "discovers": f.CanDiscover(),
	}
	want := map[string]any{
		"name":    "cp-1",
		"address": "10.0.0.1", "port": 7443, "skip": []string{"addon/kube-proxy", "show-join-command"},
		"pods": "10.244.0.0/16", "certs": "/pki",
		"version": "v1.36.3", "cluster": "ber1",
		"joins": false, "discovers": false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("accessors (-want +got):\n%s", diff)
	}
	if v, ok := f.KubeletArg(RoleInit, "v"); v != "2" || !ok {
		t.Errorf("KubeletArg(v) = %q, %t; the last one wins", v, ok)
	}
}

func TestKubeadmFile_Join(t *testing.T) {
	f := parseFile(t, "k.yaml", []byte(`apiVersion: kubeadm.k8s.io/v1beta3
kind: JoinConfiguration
nodeRegistration:
  name: w-1
  kubeletExtraArgs: {hostname-override: w-1.example.com}
controlPlane:
  localAPIEndpoint: {advertiseAddress: "fd00::2", bindPort: nonsense}
discovery:
  bootstrapToken:
    apiServerEndpoint: lb.example.com:6443
    token: abcdef.0123456789abcdef
    caCertHashes:
    - sha256:aa
    - sha256:bb
    unsafeSkipCAVerification: true
  file: {kubeConfigPath: /etc/d.conf}
  tlsBootstrapToken: uvwxyz.0123456789abcdef
timeouts: {discovery: 10m}
`))
	got := map[string]any{
		"name": f.NodeName(RoleJoin), "address": f.AdvertiseAddress(RoleJoin), "port": f.BindPort(RoleJoin),
		"joins": f.JoinsControlPlane(), "discovers": f.CanDiscover(), "endpoint": f.JoinEndpoint(),
		"file": f.DiscoveryFile(), "token": f.TLSBootstrapToken(), "boot": f.BootstrapDiscovery(),
	}
	want := map[string]any{
		"name": "w-1.example.com", "address": "fd00::2", "port": 0,
		"joins": true, "discovers": true, "endpoint": "lb.example.com:6443",
		"file": "/etc/d.conf", "token": "uvwxyz.0123456789abcdef",
		"boot": BootstrapDiscovery{
			Token: "abcdef.0123456789abcdef", Endpoint: "lb.example.com:6443",
			CACertHashes: []string{"sha256:aa", "sha256:bb"}, UnsafeSkipCAVerification: true,
			Timeout: 10 * time.Minute,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("accessors (-want +got):\n%s", diff)
	}
}

// TestKubeadmFile_Shapes reads fields that have no value, or another shape than kubeadm's, without falling over.
func TestKubeadmFile_Shapes(t *testing.T) {
	for _, fields := range []string{
		"", "nodeRegistration:\ndiscovery:\ncontrolPlane:\n", "nodeRegistration: []\ndiscovery: text\ncontrolPlane: null\n",
		"nodeRegistration: {kubeletExtraArgs: [a, [b], {name: }]}\ndiscovery: {bootstrapToken: [], file: {kubeConfigPath: {}}}\n",
		"nodeRegistration:\n  <<: [{name: [a]}]\n",
	} {
		t.Run(fields, func(t *testing.T) {
			f := parseFile(t, "k.yaml", []byte(foldJoin+fields))
			if name := f.NodeName(RoleJoin); name != "" {
				t.Errorf("NodeName = %q", name)
			}
			if _, ok := f.KubeletArg(RoleJoin, "node-ip"); ok || f.CanDiscover() || f.JoinsControlPlane() {
				t.Error("found what is not there")
			}
		})
	}
}
