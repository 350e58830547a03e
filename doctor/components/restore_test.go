package components

import (
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
