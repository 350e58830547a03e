package components

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// missing is the finding of a component that cp2 has not.
func missing(t *testing.T, w *world, component string) (next, do string) {
	t.Helper()
	w.without(component + "-cp2")
	c := Collector{Trim: func(*corev1.Pod) {}}
	for _, p := range w.pods {
		c.Pod(beside(p))
	}
	for _, d := range w.deployments {
		c.Deployment(d)
	}
	list := judgeAll(c.Seen(w.Nodes), w.Cluster)
	if len(list) != 1 || list[0].Object != "Node/cp2" {
		t.Fatalf("got %d findings: %+v", len(list), list)
	}
	return list[0].Next, list[0].Do
}

// TestRestore runs the remedy in a shell: kubeadm is told what it would guess of the machine, and etcd starts only with its data.
func TestRestore(t *testing.T) {
	data := t.TempDir()
	for _, tt := range []struct {
		name, component string
		change          func(*world)
		want, fails     string
	}{
		{"scheduler", Scheduler, func(*world) {}, "init phase control-plane scheduler\nkind: ClusterConfiguration\n---\napiVersion: kubeadm.k8s.io/v1beta4\n" +
			"kind: InitConfiguration\nnodeRegistration: {name: \"cp2\"}\nlocalAPIEndpoint: {advertiseAddress: \"192.0.2.2\", bindPort: 7443}\n", ""},
		{"API server, by the other family", APIServer, func(w *world) {
			w.Nodes[1].Status.Addresses, w.APIVersion = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "fd00::2"}}, "kubeadm.k8s.io/v1beta5"
		}, "init phase control-plane apiserver\nkind: ClusterConfiguration\n---\napiVersion: kubeadm.k8s.io/v1beta5\n" +
			"kind: InitConfiguration\nnodeRegistration: {name: \"cp2\"}\nlocalAPIEndpoint: {advertiseAddress: \"fd00::2\", bindPort: 7443}\n", ""},
		{"the address that its API server announces", Scheduler, func(w *world) {
			c := &w.named(APIServer + "-cp2")[0].Spec.Containers[0]
			c.Command = append(c.Command, "--advertise-address", "203.0.113.2")
		}, "init phase control-plane scheduler\nkind: ClusterConfiguration\n---\napiVersion: kubeadm.k8s.io/v1beta4\n" +
			"kind: InitConfiguration\nnodeRegistration: {name: \"cp2\"}\nlocalAPIEndpoint: {advertiseAddress: \"203.0.113.2\", bindPort: 7443}\n", ""},
		{"the address that its etcd announces", APIServer, func(w *world) {
			c := &w.named(Etcd + "-cp2")[0].Spec.Containers[0]
			c.Command = append(c.Command, "--advertise-client-urls=https://203.0.113.2:2379")
		}, "init phase control-plane apiserver\nkind: ClusterConfiguration\n---\napiVersion: kubeadm.k8s.io/v1beta4\n" +
			"kind: InitConfiguration\nnodeRegistration: {name: \"cp2\"}\nlocalAPIEndpoint: {advertiseAddress: \"203.0.113.2\", bindPort: 7443}\n", ""},
		{"etcd without its data", Etcd, func(w *world) { w.EtcdDataDir = filepath.Join(data, "gone") }, "", "exit status 1"},
		{"etcd with its data", Etcd, func(w *world) {
			w.EtcdDataDir = filepath.Join(data, "of etcd")
			if err := os.MkdirAll(filepath.Join(w.EtcdDataDir, "member/wal"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "init phase etcd local\nkind: ClusterConfiguration\n---\napiVersion: kubeadm.k8s.io/v1beta4\n" +
			"kind: InitConfiguration\nnodeRegistration: {name: \"cp2\"}\nlocalAPIEndpoint: {advertiseAddress: \"192.0.2.2\", bindPort: 7443}\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.Nodes[1].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.2"}}
			for _, p := range w.named(APIServer) {
				p.Spec.Containers[0].Command = append(p.Spec.Containers[0].Command, "--secure-port=7443")
			}
			tt.change(w)
			next, do := missing(t, w, tt.component)
			if told := strings.Contains(do, "etcdctl member remove") && strings.Contains(do, "ccmadm join"); told != (tt.component == Etcd) {
				t.Errorf("do: %s", do)
			}
			line, is := strings.CutPrefix(next, "on cp2: ")
			if !is {
				t.Fatalf("next: %s", next)
			}
			got, err := shell(t, line)
			if fails := ""; err != nil {
				if fails = err.Error(); fails != tt.fails {
					t.Fatalf("%s: %v\n%s", line, err, got)
				}
			} else if tt.fails != "" {
				t.Fatalf("%s: it does not fail:\n%s", line, got)
			}
			if got != tt.want {
				t.Errorf("%s: got\n%s\nwant\n%s", line, got, tt.want)
			}
		})
	}
}

// TestNewServerCertificate runs the remedy in a shell: the certificate is for this machine's own address, the pair in use stays until there is
// another one, and a copy of it stays.
func TestNewServerCertificate(t *testing.T) {
	const manifest = "metadata:\n  annotations:\n    x: 10.0.2.15:6443\nspec:\n  containers:\n  - command:\n    - kube-apiserver\n" +
		"    - --advertise-address=192.0.2.1\n    - --secure-port=7443\n"
	for name, tt := range map[string]struct {
		flags, kubeadm, want string
		dir                  string // of certificates
		fails                bool
	}{
		"the hostname":           {want: `{name: ""}`},
		"a name":                 {flags: "KUBELET_KUBEADM_ARGS=\"--hostname-override=cp1 --node-ip=192.0.2.1\"\n", want: `{name: "cp1"}`},
		"a directory of its own": {dir: "/srv/pki of it", want: `{name: ""}`},
		"kubeadm fails": {
			kubeadm: "exit 1", fails: true, want: `{name: ""}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := t.TempDir(), cmp.Or(tt.dir, "/etc/kubernetes/pki")
			inRoot := func(text string) string {
				return strings.NewReplacer(" /etc/", " "+root+"/etc/", " /var/", " "+root+"/var/", " /root/", " "+root+"/root/").Replace(text)
			}
			put := func(path, text string) {
				path = root + path
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			put("/etc/kubernetes/manifests/kube-apiserver.yaml", manifest)
			put("/var/lib/kubelet/kubeadm-flags.env", tt.flags)
			put("/root/ccmadm-pki/apiserver.crt", "of a former run")
			for _, file := range []string{"ca.crt", "ca.key", "apiserver.crt", "apiserver.key"} {
				put(dir+"/"+file, "old "+file)
			}
			put("/bin/kubectl", "#!/bin/sh\nprintf 'apiVersion: kubeadm.k8s.io/v1beta5\\ncertificatesDir: "+root+dir+"\\n"+
				"kind: ClusterConfiguration\\n'\n")
			put("/bin/kubeadm", "#!/bin/sh\nset -e\ncd "+root+"/root/ccmadm-pki\ntest ! -e apiserver.crt\ngrep -q old ca.crt ca.key\n"+
				tt.kubeadm+"\necho new > apiserver.crt\necho new > apiserver.key\n")
			for _, program := range []string{"kubectl", "kubeadm"} {
				if err := os.Chmod(root+"/bin/"+program, 0o700); err != nil { //nolint:gosec // it is run
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", inRoot(NewServerCertificate))
			cmd.Env = []string{"PATH=" + root + "/bin:/usr/bin:/bin"}
			out, err := cmd.CombinedOutput()
			if (err != nil) != tt.fails {
				t.Fatalf("%v: %s", err, out)
			}
			file := func(path string) string {
				data, _ := os.ReadFile(root + path)
				return strings.TrimSpace(string(data))
			}
			want := "old apiserver.crt"
			if !tt.fails {
				want = "new"
				if former := file(dir + "/apiserver.key.~1~"); former != "old apiserver.key" {
					t.Errorf("the former key is %q", former)
				}
			}
			if got := file(dir + "/apiserver.crt"); got != want {
				t.Errorf("the certificate is %q", got)
			}
			config := "apiVersion: kubeadm.k8s.io/v1beta5\ncertificatesDir: /root/ccmadm-pki\nkind: ClusterConfiguration\n\n---\n" +
				"apiVersion: kubeadm.k8s.io/v1beta5\nkind: InitConfiguration\nnodeRegistration: " + tt.want +
				"\nlocalAPIEndpoint: {advertiseAddress: \"192.0.2.1\", bindPort: 7443}"
			if got := strings.ReplaceAll(file("/root/ccmadm-kubeadm.yaml"), root, ""); got != config {
				t.Errorf("got\n%s\nwant\n%s", got, config)
			}
		})
	}
}

// shell runs a remedy with a kubectl that knows a configuration and a kubeadm that shows its phase and what it is given.
func shell(t *testing.T, line string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range map[string]string{
		"kubectl": "echo kind: ClusterConfiguration",
		"kubeadm": `while [ "$1" != --config ]; do echo "$1"; shift; done | xargs; for file; do :; done; grep . "$file"`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", strings.ReplaceAll(line, ConfigurationFile, filepath.Join(dir, "kubeadm.yaml"))) //nolint:gosec // of the test
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
