package host

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// hostKubelet is the process of a test's kubelet.
const hostKubelet = 700

// newHost is a control plane on which nothing is wrong: its kubelet runs with what its files say, containerd answers, and
// so does the API server, whose clock is ahead of the machine's by skew.
func newHost(t *testing.T, skew time.Duration) (*machine.Machine, *machinetest.Commands) {
	t.Helper()
	m, runner := machinetest.New(t)
	root, err := os.MkdirTemp("", "host") //nolint:usetesting // the path of a socket has 107 characters at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	m.Root, m.Now = root, time.Now
	runner.Answers["systemctl show kubelet -p LoadState"] = "LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\n" +
		"NRestarts=0\nNeedDaemonReload=no\nMainPID=700\n"
	runner.Answers["systemctl show -p MainPID"] = "700\n"
	runner.Answers["kubelet --version"] = "Kubernetes v1.36.3\n"
	runner.Answers["containerd --version"] = "containerd github.com/containerd/containerd/v2 v2.1.5 88bf19b\n"
	machinetest.Put(t, m, "/proc/sys/kernel/hostname", "CP1\n")
	process(t, m, hostKubelet, "system.slice/kubelet.service", "/usr/bin/kubelet", "--cloud-provider=external", "--node-ip="+machinetest.Address)
	machinetest.Put(t, m, machine.KubeadmFlags, "KUBELET_KUBEADM_ARGS=\"--cloud-provider=external --node-ip="+machinetest.Address+"\"\n")
	machinetest.Put(t, m, machine.StateFile, "kind: Machine\n")
	machinetest.Put(t, m, machine.KubeletConfig, "cgroupDriver: systemd\nresolvConf: /run/systemd/resolve/resolv.conf\n"+
		"containerRuntimeEndpoint: unix:///run/c/containerd.sock\nevictionHard: {memory.available: 100Mi}\n")
	machinetest.Put(t, m, "/run/systemd/resolve/resolv.conf", "# comment\nnameserver 192.0.2.53\nsearch example.org\n")
	machinetest.Put(t, m, "/etc/containerd/config.toml", "[runc.options]\n  SystemdCgroup = true\n")
	machinetest.Put(t, m, machine.CCMManifest, managerPod("cloud-controller-manager", ""))
	machinetest.Put(t, m, machine.ManifestDir+"/.cloud-controller-manager.yaml.previous", "no YAML: [")
	machinetest.Put(t, m, "/proc/net/tcp", "  sl  local_address\n"+listens(10258, 9001)+listens(6443, 9002))
	process(t, m, 800, "kubepods/besteffort/pod1/x", "/ccm", "--token=hunter2")
	socket(t, m, 800, 9001)
	listenHTTP2(t, m.Path("/run/c/containerd.sock"))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	machinetest.Put(t, m, machine.KubeletConf, "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: "+server.URL+
		"}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n")
	return m, runner
}

func process(t *testing.T, m *machine.Machine, pid int, cgroup string, args ...string) {
	t.Helper()
	machinetest.Put(t, m, fmt.Sprintf("/proc/%d/cmdline", pid), strings.Join(args, "\x00")+"\x00")
	machinetest.Put(t, m, fmt.Sprintf("/proc/%d/cgroup", pid), "0::/"+cgroup+"\n")
}

func socket(t *testing.T, m *machine.Machine, pid, inode int) {
	t.Helper()
	link := m.Path(fmt.Sprintf("/proc/%d/fd/7", pid))
	if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o755), os.Symlink(fmt.Sprintf("socket:[%d]", inode), link)); err != nil {
		t.Fatal(err)
	}
}

func listens(port, inode int) string {
	return fmt.Sprintf("   0: 00000000:%04X 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 %d 1 0000 100 0 0 10 0\n", port, inode)
}

func listenHTTP2(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

func managerPod(name, spec string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: kube-system}\nspec:\n  hostNetwork: true\n" + spec +
		"  containers: [{name: m, image: x, args: [--secure-port=10258]}]\n"
}

func TestLook(t *testing.T) {
	flags := func(text string) func(*testing.T, *machine.Machine, *machinetest.Commands) {
		return func(t *testing.T, m *machine.Machine, _ *machinetest.Commands) {
			machinetest.Put(t, m, "/etc/default/kubelet", text)
		}
	}
	runs := func(args ...string) func(*testing.T, *machine.Machine, *machinetest.Commands) {
		return func(t *testing.T, m *machine.Machine, _ *machinetest.Commands) {
			process(t, m, hostKubelet, "system.slice", append([]string{"/usr/bin/kubelet"}, args...)...)
		}
	}
	file := func(path, text string) func(*testing.T, *machine.Machine, *machinetest.Commands) {
		return func(t *testing.T, m *machine.Machine, _ *machinetest.Commands) { machinetest.Put(t, m, path, text) }
	}
	tests := []struct {
		name string
		skew time.Duration
		do   []func(*testing.T, *machine.Machine, *machinetest.Commands)
		want string // IDs, and after a blank a word of the first message
	}{
		{name: "nothing is wrong"},
		{name: "a flag that wins over kubeadm's", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){
			flags("KUBELET_EXTRA_ARGS=--node-ip=198.18.0.11 --cloud-provider=aws\n"), runs("--cloud-provider=external", "--node-ip="+machinetest.Address, "--cloud-provider=aws"),
		}, want: "A3,A4 /var/lib/kubelet/kubeadm-flags.env:1: external, and by /etc/default/kubelet:1: aws; the last one wins"},
		{name: "the same flag in two files alike is no matter", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){
			flags("KUBELET_EXTRA_ARGS=--cloud-provider=external\n"),
		}},
		{name: "changed, and not restarted", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){
			flags("KUBELET_EXTRA_ARGS=\"--v=4\"\n"),
		}, want: "K2 --v is /etc/default/kubelet:1: 4, and the process 700 runs without it"},
		{name: "a comment is no flag", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){flags("# --v=4\nKUBELET_EXTRA_ARGS=\n")}},
		{name: "not in external mode", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){runs("--node-ip=" + machinetest.Address)}, want: "A1,K2"},
		{name: "a flag that is gone", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){
			flags("KUBELET_EXTRA_ARGS=--cloud-config=/etc/cloud.conf\n"),
			func(_ *testing.T, _ *machine.Machine, c *machinetest.Commands) {
				c.Answers["systemctl show kubelet -p LoadState"] = "LoadState=loaded\nActiveState=activating\nSubState=auto-restart\nUnitFileState=enabled\nNRestarts=41\nMainPID=0\n"
				c.Answers["systemctl show -p MainPID"] = "0\n"
				c.Answers["journalctl -u kubelet"] = "I1122 x\nE1122 \"command failed\" err=\"unknown flag: --cloud-config\"\nsystemd: exited\n"
			},
		}, want: "A5>K1 --cloud-config=/etc/cloud.conf is set, and a kubelet of v1.36.3 has no such flag"},
		{name: "an address of somebody else", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){
			runs("--cloud-provider=external", "--node-ip=203.0.113.7"), file(machine.KubeadmFlags, "X=\"--cloud-provider=external --node-ip=203.0.113.7\"\n"),
		}, want: "A14 --node-ip is 203.0.113.7, and this machine has 198.18.0.11"},
		{name: "stopped and disabled", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){func(_ *testing.T, _ *machine.Machine, c *machinetest.Commands) {
			c.Answers["systemctl show kubelet -p LoadState"] = "LoadState=loaded\nActiveState=inactive\nSubState=dead\nUnitFileState=disabled\nMainPID=0\n"
			c.Answers["systemctl show -p MainPID"] = "0\n"
		}}, want: "K1,K3 unit kubelet is inactive (dead)"},
		{name: "daemon-reload is due", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){func(_ *testing.T, _ *machine.Machine, c *machinetest.Commands) {
			c.Answers["systemctl show kubelet -p LoadState"] = "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\nMainPID=700\nNeedDaemonReload=yes\n"
		}}, want: "K2 systemd has not read"},
		{name: "a manifest that is no YAML", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){
			file(machine.ManifestDir+"/kube-apiserver.yaml", "kind: Pod\n\tx"),
		}, want: "K4 /etc/kubernetes/manifests/kube-apiserver.yaml: it is no Pod"},
		{name: "a backup beside the manifest", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){
			file(machine.CCMManifest+".bak", managerPod("cloud-controller-manager", "")),
		}, want: "K4 are both pod kube-system/cloud-controller-manager"},
		{name: "a static pod with a service account", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){
			file(machine.CCMManifest, managerPod("ccm", "  serviceAccountName: ccm\n")),
		}, want: "A15 references serviceaccount ccm"},
		{name: "somebody else's program on 10258", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){func(t *testing.T, m *machine.Machine, _ *machinetest.Commands) {
			process(t, m, 800, "system.slice/k3s.service", "/usr/local/bin/k3s", "server", "--token=hunter2")
		}}, want: "B10 k3s (process 800), which is no pod, listens on port 10258 of kube-system/cloud-controller-manager"},
		{name: "a clock that is behind", skew: 7 * time.Minute, want: "K7 its clock is 7m"},
		{name: "a clock that is 20 s ahead is no matter", skew: -20 * time.Second},
		{name: "loopback as resolver", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){
			file("/run/systemd/resolve/resolv.conf", "nameserver 127.0.0.53\n"),
		}, want: "K8 names 127.0.0.53, which in a pod is the pod itself"},
		{name: "no server", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){file("/run/systemd/resolve/resolv.conf", "search x\n")}, want: "K8 names no server"},
		{name: "no resolver's file", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){func(t *testing.T, m *machine.Machine, _ *machinetest.Commands) {
			must(t, os.Remove(m.Path("/run/systemd/resolve/resolv.conf")))
		}}, want: "K8 does not exist"},
		{name: "containerd is gone", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){func(t *testing.T, m *machine.Machine, _ *machinetest.Commands) {
			must(t, os.Remove(m.Path("/run/c/containerd.sock")))
		}}, want: "K9 no such file"},
		{name: "containerd hangs", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){func(t *testing.T, m *machine.Machine, _ *machinetest.Commands) {
			must(t, os.Remove(m.Path("/run/c/containerd.sock")))
			silent, err := net.Listen("unix", m.Path("/run/c/containerd.sock"))
			must(t, err)
			t.Cleanup(func() { _ = silent.Close() })
		}}, want: "K9 it has not answered in 3 s"},
		{name: "two cgroup drivers", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){
			file("/etc/containerd/config.toml", "version = 2\n"), containerd1,
		}, want: "K11,U16 the kubelet's cgroupDriver is systemd, containerd's cgroupfs"},
		{
			name: "a runtime that a kubelet of 1.38 does not start with", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){containerd1},
			want: "U16 containerd://1.7.24 does not report its cgroup driver",
		},
		{name: "two cgroup drivers, and a runtime that tells its own", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){
			file("/etc/containerd/config.toml", "version = 3\n"), func(_ *testing.T, _ *machine.Machine, c *machinetest.Commands) {
				c.Answers["containerd --version"] = "containerd github.com/containerd/containerd/v2 v2.1.4 x\n"
			},
		}},
		{name: "a certificate that has ended", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){func(t *testing.T, m *machine.Machine, _ *machinetest.Commands) {
			hostCertificate(t, m, -time.Hour)
		}}, want: "K5 /etc/kubernetes/cloud-controller-manager.conf ended at "},
		{name: "a certificate near its end", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){func(t *testing.T, m *machine.Machine, _ *machinetest.Commands) {
			hostCertificate(t, m, 20*24*time.Hour)
		}}, want: "K6 in 19 days"},
		{name: "a certificate for a year", do: []func(*testing.T, *machine.Machine, *machinetest.Commands){func(t *testing.T, m *machine.Machine, _ *machinetest.Commands) {
			hostCertificate(t, m, 365*24*time.Hour)
		}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, runner := newHost(t, tt.skew)
			for _, do := range tt.do {
				do(t, m, runner)
			}
			d := diagnoseHost(t, m)
			ids, text := hostWords(d)
			want, word, _ := strings.Cut(tt.want, " ")
			if ids != want || !strings.Contains(text, word) {
				t.Errorf("got %s %s\nwant %s", ids, text, tt.want)
			}
			if len(d.NotSeen) != 1 {
				t.Errorf("not seen: %v", d.NotSeen)
			}
			if strings.Contains(text, "hunter2") {
				t.Errorf("a credential is told: %s", text)
			}
		})
	}
}

func containerd1(_ *testing.T, _ *machine.Machine, c *machinetest.Commands) {
	c.Answers["containerd --version"] = "containerd github.com/containerd/containerd v1.7.24 88bf19b\n"
}

// hostWords are a diagnosis' IDs, with consequences, and all that it says.
func hostWords(d *diagnosis.Diagnosis) (ids, text string) {
	var list []string
	for _, c := range d.Causes {
		parts := []string{string(c.ID)}
		for _, k := range c.Consequences {
			parts = append(parts, string(k.ID))
		}
		list = append(list, strings.Join(parts, ">"))
		text += c.Message + "\n"
	}
	slices.Sort(list)
	return strings.Join(list, ","), text
}

func diagnoseHost(t *testing.T, m *machine.Machine) *diagnosis.Diagnosis {
	t.Helper()
	return diagnoseHostIn(t.Context(), t, m)
}

func diagnoseHostIn(ctx context.Context, t *testing.T, m *machine.Machine) *diagnosis.Diagnosis {
	t.Helper()
	s := diagnosis.Unreached(errors.New("no cluster"), false)
	var notSeen []diagnosis.NotSeen
	s.Host, notSeen = Look(ctx, m)
	s.NotSeen = append(s.NotSeen, notSeen...)
	d := diagnosis.Diagnose(s)
	for i := range d.Causes { // a disk of the machine that runs the test is no matter of it
		if d.Causes[i].ID == "K10" {
			t.Fatalf("the test's own disk is full: %s", d.Causes[i].Message)
		}
	}
	return d
}

// A machine of which nothing can be read is not one without faults.
func TestLook_Nothing(t *testing.T) {
	m, runner := machinetest.New(t)
	for _, program := range []string{"systemctl", "kubelet", "journalctl", "containerd"} {
		runner.Fails[program] = machine.ErrNotFound
	}
	d := diagnoseHost(t, m)
	var missing []string
	for _, n := range d.NotSeen {
		missing = append(missing, n.What)
	}
	for _, part := range []string{diagnosis.HostKubeletPart, diagnosis.HostFlagsPart, diagnosis.HostPortsPart, diagnosis.HostClockPart} {
		if !slices.Contains(missing, part) {
			t.Errorf("%s is not said to be missing: %v", part, missing)
		}
	}
	if ids, _ := hostWords(d); ids != "K8,K9" {
		t.Errorf("got %s", ids)
	}
}

// TestNewKubeletConf: a kubelet's identity that has ended is made again where the CA's key is, and is nowhere half-written.
func TestNewKubeletConf(t *testing.T) {
	const (
		file = "/root/ccmadm-kubelet-cp1.conf"
		sign = components.LiveConfiguration + " && " + components.OwnConfiguration + " && kubeadm kubeconfig user --config " +
			"/root/ccmadm-kubeadm.yaml --org system:nodes --client-name system:node:cp1 > " + file + " && chmod 600 " + file
		own   = "/var/lib/kubelet/pki/kubelet-client-current.pem"
		again = "mv --backup=numbered " + file + " /etc/kubernetes/kubelet.conf && rm -f " + own + " && systemctl restart kubelet && " +
			"timeout 60 sh -c 'until test -e " + own + "; do sleep 1; done' && " +
			`sed -Ei 's#client-(certificate|key)-data: .*#client-\1: ` + own + "#' /etc/kubernetes/kubelet.conf"
	)
	for _, tt := range []struct {
		name, key, want string
	}{
		{"control plane", "x", sign + " && " + again},
		{"worker", "", "on a control plane with the CA's ca.key: " + sign + ", then copy that file to the same path on this machine, then: " + again},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := newHost(t, 0)
			machinetest.Put(t, m, "/var/lib/kubelet/pki/kubelet-client-current.pem", string(certificate(t, -time.Hour)))
			if tt.key != "" {
				machinetest.Put(t, m, machine.PKIDir+"/ca.key", tt.key)
			}
			d := diagnoseHost(t, m)
			at := slices.IndexFunc(d.Causes, func(c diagnosis.Cause) bool { return c.ID == "K5" })
			if at < 0 || d.Causes[at].Next != tt.want {
				t.Errorf("got %+v, want %s", d.Causes, tt.want)
			}
		})
	}
}

// hostCertificate gives the manager an identity that ends after a while, or has.
func hostCertificate(t *testing.T, m *machine.Machine, left time.Duration) {
	t.Helper()
	data := base64.StdEncoding.EncodeToString(certificate(t, left))
	machinetest.Put(t, m, machine.CCMKubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: \"https://x\"}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {client-certificate-data: "+data+", client-key-data: eA==}}]\n")
}

// certificate is one in PEM that ends after a while, or has.
func certificate(t *testing.T, left time.Duration) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(left)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
