package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What may hold a planted secret, and why; all else of what ccmadm writes, prints and stores is searched.
//
//   - Secrets of the API, and documents of kind Secret that `ccmadm render` prints for kubectl: their purpose.
//   - /etc/ccmadm/kubeadm.yaml and its previous content, mode 0600: kubeadm reads tokens, keys and variables from it.
//   - /etc/ccmadm/machine.yaml, mode 0600: the kubelet's flags during an upgrade; none are planted there.
//   - The join command that init prints, with its token and certificate key, and kubeadm's own lines about these two: they
//     are printed to be used.
var secretFiles = []string{"/etc/ccmadm/kubeadm.yaml", "/etc/ccmadm/.kubeadm.yaml.previous"}

// TestSecrets plants secrets in every place that machines and a cluster have, runs the commands of ccmadm over them, and
// searches all that they write, print and store.
func TestSecrets(t *testing.T) {
	t.Parallel()
	s := &secrets{planted: planted{run: fmt.Sprintf("%08x", rand.Uint32())}}
	s.lab = up(t, "secrets", 1, 2, "--image", agentImage, "--image", adoptImage)
	s.prepareMachines(t)
	s.initialize(t)
	s.commandsBefore(t)
	s.must(t, "w1", s.joinCommand(t))
	s.must(t, "w2", "kubeadm init --config "+kubeadmYAML+" "+ignore)
	s.expectInitialized(t, "cp1", "w1")
	s.plantObjects(t, "cp1")
	s.plantObjects(t, "w2")
	s.daemonSet(t)
	s.plantLogs(t)
	s.commands(t)
	size := s.search(t)
	t.Logf("%d secrets planted in %d places, %d bytes collected, %d found", len(s.list), len(s.places), size, s.hits)
}

// secrets is a run of TestSecrets.
type secrets struct {
	*lab
	planted
	hits int
}

// putSecret writes a file of mode 0600, whatever is in it and however long it is.
func (s *secrets) putSecret(t *testing.T, machine, path, content string) {
	t.Helper()
	local := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(local, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	s.lab.run(t, "cp", "--name", s.name, local, machine+":"+path)
	s.must(t, machine, "chmod 600 "+path)
}

func commented(texts []string) string {
	return "\n# " + strings.ReplaceAll(strings.Join(texts, "\n"), "\n", "\n# ") + "\n"
}

// environmentOf is a unit's or a file's, with a variable for each form of a value that may stand there.
func environmentOf(secret func() string) (quoted, plain string) {
	quoted = fmt.Sprintf(`"HTTPS_PROXY=http://u:%s@127.0.0.1:1" "NO_PROXY=*" "VAULT_TOKEN=%s" PLAIN=%s 'TWO=one %s'`, secret(), secret(), secret(), secret())
	plain = fmt.Sprintf("REGISTRY_PASSWORD=%s\nGH_PAT=\"%s\"\nALL_PROXY=socks5://u:%s@127.0.0.1:1\n", secret(), secret(), secret())
	return quoted, plain
}

// prepareMachines writes into the files that administrators and other tools have there.
func (s *secrets) prepareMachines(t *testing.T) {
	t.Helper()
	for _, m := range []string{"cp1", "w2"} {
		quoted, plain := environmentOf(s.one("environment of the kubelet's unit on " + m))
		journal := strings.Join(s.in("the kubelet's journal on "+m), "\n")
		s.putSecret(t, m, "/root/said", journal+"\n")
		s.putSecret(t, m, "/root/drop-in", "[Service]\nEnvironment="+quoted+"\nExecStartPre=/bin/cat /root/said\n")
		s.putSecret(t, m, "/root/default", plain+commented(s.in("/etc/default/kubelet on "+m)))
		s.putSecret(t, m, "/root/containerd", commented(s.in("containerd's configuration on "+m)))
		s.putSecret(t, m, "/root/resolv", commented(s.in("/etc/resolv.conf on "+m)))
		s.putSecret(t, m, "/root/own.yaml", s.ownPod("a static pod on "+m))
		s.must(t, m, `d=/etc/systemd/system/kubelet.service.d; mkdir -p $d /etc/kubernetes/manifests && cp /root/drop-in $d/50-secrets.conf
cat /root/default >> /etc/default/kubelet; cat /root/containerd >> /etc/containerd/config.toml; cat /root/resolv >> /etc/resolv.conf
cp /root/own.yaml /etc/kubernetes/manifests/own.yaml; systemctl daemon-reload`)
	}
}

// ownPod is a pod of somebody else: with all shapes among its arguments, its variables and its annotations.
func (s *secrets) ownPod(place string) string {
	type object = map[string]any
	var env []object
	annotations := map[string]string{}
	for i, text := range s.in(place + ": variables") {
		env = append(env, object{"name": fmt.Sprintf("PLAIN_%d", i), "value": text})
	}
	for i, text := range s.in(place + ": annotations") {
		annotations[fmt.Sprintf("example.org/note-%d", i)] = text
	}
	pod := object{
		"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "own", "namespace": "kube-system", "annotations": annotations},
		"spec": object{"hostNetwork": true, "containers": []object{{
			"name": "own", "image": echoImage, "imagePullPolicy": "Never", "env": env, "command": []string{"/echo", "-port=8099"},
			"args": s.in(place + ": arguments"),
		}}},
	}
	data, err := json.Marshal(pod)
	if err != nil {
		panic(err)
	}
	annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(data)
	if data, err = json.Marshal(pod); err != nil {
		panic(err)
	}
	return string(data)
}

// initialize makes a control plane, of a file with what kubeadm takes in clear.
func (s *secrets) initialize(t *testing.T) {
	t.Helper()
	secret := s.one("kubeadm's configuration")
	key := strings.Repeat(secret(), 4)
	s.putSecret(t, "cp1", "/root/more.yaml", fmt.Sprintf(`---
apiVersion: ccmadm.dev/v1alpha1
kind: CloudConfiguration
provider: onprem
%s`, commented(s.in("comments of kubeadm's configuration"))))
	variables := fmt.Sprintf(`controllerManager: {extraEnvs: [{name: DB_PASSWORD, value: %s}, {name: PLAIN, value: %s}]}
scheduler: {extraEnvs: [{name: HTTPS_PROXY, value: "http://u:%s@127.0.0.1:1"}, {name: NO_PROXY, value: "*"}]}`, secret(), secret(), secret())
	s.must(t, "cp1", fmt.Sprintf(`sed -e 's/^kind: InitConfiguration$/&\nbootstrapTokens: [{token: abcdef.%s}]\ncertificateKey: %s/' %s > /root/kubeadm.yaml
cat > /root/variables <<'END'
%s
END
sed -i -e '/^kind: ClusterConfiguration$/r /root/variables' /root/kubeadm.yaml; cat /root/more.yaml >> /root/kubeadm.yaml; chmod 600 /root/kubeadm.yaml
`, secret(), key, kubeadmYAML, variables))
	s.collect(t, "cp1", []string{
		"ccmadm init --config /root/kubeadm.yaml --dry-run " + ignore, "ccmadm lint -f /root/kubeadm.yaml; ccmadm lint -o json -f /root/kubeadm.yaml",
		"ccmadm lint --diff -f /root/kubeadm.yaml", "ccmadm config print --config /root/kubeadm.yaml; ccmadm config validate --config /root/kubeadm.yaml",
		"ccmadm init --config /root/kubeadm.yaml --upload-certs --routes " + ignore,
	})
	s.must(t, "cp1", "test -e /etc/kubernetes/admin.conf")
}

// secretTools begins a script with a function that runs a command and keeps its streams.
const secretTools = `mkdir -p /root/got; cd /root/got
got() { local n=$(ls | wc -l); { timeout 100 bash -c "$1"; echo "exit status $?"; } > $(printf %03d $n).txt 2>&1; }
`

// collect runs commands, whatever they end with.
func (s *secrets) collect(t *testing.T, machine string, commands []string) {
	t.Helper()
	start := time.Now()
	var script strings.Builder
	script.WriteString(secretTools)
	for _, c := range commands {
		fmt.Fprintf(&script, "got '%s'\n", strings.ReplaceAll(c, "'", `'\''`))
	}
	s.must(t, machine, script.String())
	t.Logf("%s: %d commands in %.1f s", machine, len(commands), time.Since(start).Seconds())
}
