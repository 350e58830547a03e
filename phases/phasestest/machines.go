package phasestest

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// ControlPlaneMachine is one that kubeadm has finished on, with the tests' API server.
func ControlPlaneMachine(t *testing.T, config *rest.Config) (*machine.Machine, *machinetest.Commands) {
	t.Helper()
	m, runner := machinetest.New(t)
	machinetest.CopyCA(t, machinetest.NewCA(t), m.Path(machine.PKIDir))
	machinetest.Put(t, m, machine.StateFile, StateAt(state.StageFinished))
	machinetest.Put(t, m, machine.KubeletConf, "x")
	machinetest.Put(t, m, machine.AdminConf, KubeconfigText(t, config))
	return m, runner
}

// KubeconfigText is a kubeconfig of the client.
func KubeconfigText(t *testing.T, config *rest.Config) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	c.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "c"
	data, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Announced is by BGP, to one router.
func Announced(address string) workflow.Inputs {
	said := config.CloudConfiguration{}
	said.ControlPlaneVIP = config.ControlPlaneVIP{Address: address, BGP: &config.ControlPlaneVIPBGP{
		LocalASN: 64512, Peers: []config.ControlPlaneVIPPeer{{Address: "192.0.2.1", ASN: 64500}},
	}}
	return workflow.Inputs{Request: workflow.Request{Flags: said}}
}

// TokenKubeconfig is one that an administrator made.
func TokenKubeconfig(ca []byte) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"users: [{name: u, user: {token: abc}}]\nclusters:\n- name: c\n  cluster: {server: 'https://lb.example:6443', certificate-authority-data: " +
		base64.StdEncoding.EncodeToString(ca) + "}\n"
}

// ReadCA is the certificate of the CA in a directory.
func ReadCA(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// KubeletOf plays systemd and the kubelet of a node: a restart reads the files behind the flags as systemd does, and
// makes a new process.
func KubeletOf(t *testing.T) (*machine.Machine, *machinetest.Commands) {
	t.Helper()
	return KubeletWith(t, "--config=/var/lib/kubelet/config.yaml")
}

// KubeletWith is one whose unit gives it these arguments where there is no drop-in of ours.
func KubeletWith(t *testing.T, unitArgs string) (*machine.Machine, *machinetest.Commands) {
	t.Helper()
	m, runner := machinetest.New(t)
	healthz := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	t.Cleanup(healthz.Close)
	_, port, err := net.SplitHostPort(healthz.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, machine.KubeletConfig, "healthzPort: "+port+"\n")
	machinetest.Put(t, m, machine.KubeletConf, "x")
	machinetest.Put(t, m, "/run/systemd/system/x", "")
	machinetest.Put(t, m, machine.KubeadmFlags, "KUBELET_KUBEADM_ARGS=\"--pod-infra-container-image=pause:3.10\"\n")
	pid := 100
	start := func() {
		pid++
		line := "/usr/bin/kubelet " + unitArgs
		if machinetest.Content(m, machine.KubeletDropIn) != "" {
			_, env, _ := strings.Cut(machinetest.Content(m, machine.KubeletEnvFile), "KUBELET_CONFIG_ARGS=")
			line = "/usr/bin/kubelet " + strings.Trim(env, "\"\n")
		}
		_, env, _ := strings.Cut(machinetest.Content(m, machine.KubeadmFlags), "=")
		line += " " + strings.Trim(env, "\"\n")
		machinetest.Put(t, m, fmt.Sprintf("/proc/%d/cmdline", pid), strings.ReplaceAll(line, " ", "\x00")+"\x00")
		runner.Answers["systemctl show -p MainPID"] = fmt.Sprintf("%d\n", pid)
	}
	runner.During = func(line string) {
		if line == "systemctl restart kubelet" {
			start()
		}
	}
	start()
	return m, runner
}

// KubeletFilesOf are the files that a step may change.
func KubeletFilesOf(t *testing.T, m *machine.Machine) string {
	t.Helper()
	var b strings.Builder
	for _, path := range []string{
		machine.KubeletEnvFile, machine.KubeletDropIn, machine.KubeletUnit,
		machine.KubeadmFlags,
	} {
		fmt.Fprintf(&b, "%s: %q\n", path, machinetest.Content(m, path))
	}
	return b.String()
}

// Restarts counts the restarts of the kubelet.
func Restarts(c *machinetest.Commands) int {
	n := 0
	for _, line := range c.Ran {
		if line == "systemctl restart kubelet" {
			n++
		}
	}
	return n
}

// APIServerPod is the manifest of an API server of that version, with a container before it as a patch puts one.
func APIServerPod(version string) string {
	return "spec: {containers: [{name: audit, image: 'registry.example.com/audit:v0.9.1'}, " +
		"{name: kube-apiserver, image: 'registry.k8s.io/kube-apiserver:" + version + "'}]}\n"
}

// EtcdIn is the manifest of kubeadm's etcd with its data in dir.
func EtcdIn(dir string) string {
	return "spec: {volumes: [{name: etcd-data, hostPath: {path: " + dir + "}}]}\n"
}
