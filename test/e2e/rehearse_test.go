package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// rehearsed is a Node without a machine in the cluster that is rehearsed, and what is to be said of it.
type rehearsed struct{ name, providerID, outcome, words string }

const rehearse = "ccmadm rehearse --binary /usr/local/bin/ccm --log /tmp/ccm.log -o json --timeout 90s --provider "

// TestRehearse: vendors' own programs, unmodified, tell of a live cluster which Nodes they know and which they would
// delete, and change none of them: with an instance that is gone, one that is off, a Node with a name of its own, the
// wrong region and the wrong credentials.
func TestRehearse(t *testing.T) {
	t.Parallel()
	l := up(t, "rehearse", 1, 2, "--image", adoptImage)
	l.must(t, "cp1", "kubeadm init --config "+kubeadmYAML+" "+ignore)
	t.Run("aws", func(t *testing.T) { rehearseAWS(t, l) })
	t.Run("openstack", func(t *testing.T) { rehearseOpenStack(t, l) })
	t.Run("vsphere", func(t *testing.T) { rehearseVSphere(t, l) })
	t.Run("sample", func(t *testing.T) { rehearseSample(t, l) })
	t.Run("pod", func(t *testing.T) { rehearseInPod(t, l) })
	t.Run("a program that does more is refused", func(t *testing.T) {
		if r := l.sh(t, "cp1", rehearse+"scaleway"); r.code != 5 || !strings.Contains(r.out, "whatever --controllers says") {
			t.Errorf("exit status %d, want 5 and the reason\n%s", r.code, r.out)
		}
	})
}

func rehearseAWS(t *testing.T, l *lab) {
	l.installCCM(t, "aws")
	const zone = "aws:///eu-central-1a/"
	nodes := []rehearsed{
		{"i-0aaaaaaaaaaaaaaa1", "", "Recognized", ""},
		{"i-0aaaaaaaaaaaaaaa2", zone + "i-0aaaaaaaaaaaaaaa2", "Recognized", ""},
		{"i-0aaaaaaaaaaaaaaa3", zone + "i-0aaaaaaaaaaaaaaa3", "WouldBeDeleted", ""},
		{"i-0aaaaaaaaaaaaaaa4", zone + "i-0aaaaaaaaaaaaaaa4", "SwitchedOff", ""},
		{"renamed", "", "NotRecognized", ""},
	}
	state := cloudState{Region: "eu-central-1", Key: cloudKey}
	for i, n := range nodes[:4] {
		state.Machines = append(state.Machines, cloudMachine{
			ID: n.name, Name: n.name, Address: fmt.Sprintf("198.18.77.%d", i+1), Zone: "eu-central-1a", Type: "t3.small",
			State: []string{"running", "running", "terminated", "stopped"}[i], Cluster: "lab",
		})
	}
	here := cloudMachine{ // where the program runs, and asks the metadata service
		ID: "i-0aaaaaaaaaaaaaaa9", Name: "here", Address: l.address(t, "cp1"), Zone: "eu-central-1a", Type: "t3.small", State: "running", Cluster: "lab",
	}
	state.Machines = append(state.Machines, here)
	endpoint := "http://" + l.startCloud(t, state)
	l.writeFiles(t, map[string]string{cloudConf: awsConfig(endpoint), "/tmp/credentials": awsCredentials})
	l.addNodes(t, nodes)
	const command = rehearse + "aws --cloud-config " + cloudConf + " --credential credentials=/tmp/credentials"
	l.rehearse(t, command, 6, nodes)
	l.rehearse(t, strings.Replace(command, " --binary /usr/local/bin/ccm", "", 1), 6, nodes) // in a pod
	l.expectNoRehearsal(t)
	t.Run("another region", func(t *testing.T) {
		elsewhere := state
		elsewhere.Machines = []cloudMachine{here}
		l.setCloud(t, elsewhere)
		l.rehearse(t, command, 6, []rehearsed{
			{nodes[1].name, "", "WouldBeDeleted", ""}, {nodes[3].name, "", "WouldBeDeleted", ""}, {nodes[4].name, "", "NotRecognized", ""},
		})
	})
	t.Run("wrong credentials", func(t *testing.T) {
		other := state
		other.Key = "another"
		l.setCloud(t, other)
		l.rehearseFails(t, command, "AuthFailure")
	})
}

func rehearseOpenStack(t *testing.T, l *lab) {
	l.installCCM(t, "openstack")
	id := func(n int) string { return fmt.Sprintf("6d5f3c4e-0000-4000-8000-00000000000%d", n) }
	nodes := []rehearsed{
		{"o1", "", "Recognized", ""},
		{"o2", "openstack:///" + id(2), "Recognized", ""},
		{"o3", "openstack:///" + id(3), "WouldBeDeleted", ""},
		{"o4", "openstack:///" + id(4), "SwitchedOff", ""},
	}
	state := cloudState{Region: "RegionOne", Key: cloudKey}
	for i, n := range nodes {
		state.Machines = append(state.Machines, cloudMachine{
			ID: id(i + 1), Name: n.name, Address: fmt.Sprintf("198.18.77.%d", i+1), Zone: "nova", Type: "m1.small",
			State: []string{"running", "running", "terminated", "stopped"}[i],
		})
	}
	endpoint := "http://" + l.startCloud(t, state)
	config := strings.ReplaceAll(openstackConfig, "ENDPOINT", endpoint)
	l.writeFiles(t, map[string]string{
		cloudConf: config, "/tmp/region.conf": strings.ReplaceAll(config, "RegionOne", "RegionTwo"),
		"/tmp/secret.conf": strings.ReplaceAll(config, cloudKey, "guessed"),
	})
	l.addNodes(t, nodes)
	l.rehearse(t, rehearse+"openstack --cloud-config "+cloudConf, 6, nodes)
	t.Run("another region", func(t *testing.T) {
		l.rehearseFails(t, rehearse+"openstack --cloud-config /tmp/region.conf", "endpoint")
	})
	t.Run("wrong credentials", func(t *testing.T) {
		l.rehearseFails(t, rehearse+"openstack --cloud-config /tmp/secret.conf", "401")
	})
}

func rehearseVSphere(t *testing.T, l *lab) {
	built := l.installCCM(t, "vsphere")
	id := func(n int) string { return fmt.Sprintf("42307a3c-0000-4000-8000-00000000000%d", n) }
	nodes := []rehearsed{
		{"v1", "", "Recognized", ""},
		{"v2", "vsphere://" + id(2), "Recognized", ""},
		{"v3", "vsphere://" + id(3), "WouldBeDeleted", ""},
	}
	state := cloudState{Key: cloudKey}
	for i, n := range nodes {
		state.Machines = append(state.Machines, cloudMachine{
			ID: id(i + 1), Name: n.name, Address: fmt.Sprintf("198.18.77.%d", i+1), State: []string{"running", "running", "terminated"}[i],
		})
	}
	host, _, _ := strings.Cut(l.runCloud(t, filepath.Join(built, "vcenter"), state), ":")
	l.must(t, "cp1", "mkdir -p /etc/kubernetes/cloud-config")
	config := strings.ReplaceAll(vsphereConfig, "HOST", host)
	l.writeFiles(t, map[string]string{cloudConf: config, "/tmp/secret.conf": strings.ReplaceAll(config, cloudKey, "guessed")})
	eventually(t, time.Minute, "vCenter is ready", func() bool { return l.asked(t, "ready on") > 0 })
	l.addNodes(t, nodes)
	l.rehearse(t, rehearse+"vsphere --cloud-config "+cloudConf, 6, nodes)
	t.Run("wrong credentials", func(t *testing.T) {
		l.rehearseFails(t, rehearse+"vsphere --cloud-config /tmp/secret.conf", "Credentials not found")
	})
}

func rehearseSample(t *testing.T, l *lab) {
	l.installCCM(t, "sample")
	nodes := []rehearsed{{"s1", "sample://1", "Recognized", ""}, {"s2", "sample://2", "WouldBeDeleted", ""}}
	l.writeFiles(t, map[string]string{
		cloudConf:          `{"s1": {"id": "1", "address": "198.18.77.1"}, "cp1": {"id": "0", "address": "198.18.77.9"}}` + "\n",
		"/tmp/broken.conf": "{\n",
	})
	l.addNodes(t, nodes)
	const command = rehearse + "sample --arg --cloud-provider=sample --cloud-config "
	l.rehearse(t, command+cloudConf, 6, nodes)
	l.rehearse(t, command+"/tmp/broken.conf", 6, []rehearsed{{"s1", "", "NotRecognized", "unexpected end of JSON"}})
	t.Run("nothing is lost", func(t *testing.T) {
		l.kubectl(t, "delete node s2")
		l.rehearse(t, command+cloudConf, 0, []rehearsed{{"s1", "", "Recognized", ""}, {"cp1", "", "Recognized", ""}})
	})
}

func (l *lab) writeFiles(t *testing.T, files map[string]string) {
	t.Helper()
	for path, content := range files {
		l.must(t, "cp1", fmt.Sprintf("install -m 600 /dev/null %[1]s && cat > %[1]s <<'END'\n%[2]sEND\n", path, content))
	}
}

// addNodes makes Nodes that have no kubelet.
func (l *lab) addNodes(t *testing.T, nodes []rehearsed) {
	t.Helper()
	var names []string
	for _, n := range nodes {
		l.must(t, "cp1", fmt.Sprintf(`kubectl --kubeconfig /etc/kubernetes/admin.conf create -f - <<'END'
{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q}, "spec": {"providerID": %q},
"status": {"nodeInfo": {"systemUUID": %q}}}
END`, n.name, n.providerID, strings.TrimPrefix(n.providerID, "vsphere://")))
		names = append(names, n.name)
	}
	t.Cleanup(func() { l.kubectl(t, "delete node --ignore-not-found "+strings.Join(names, " ")) })
}

// untouched are the names and UIDs of all Nodes. It fails where one was written by somebody else than the cluster itself.
func (l *lab) untouched(t *testing.T) string {
	t.Helper()
	var list corev1.NodeList
	if err := json.Unmarshal([]byte(l.kubectl(t, "get nodes -o json --show-managed-fields")), &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range list.Items {
		names = append(names, n.Name+" "+string(n.UID))
		for _, f := range n.ManagedFields {
			if !slices.Contains([]string{"kubectl-create", "kube-controller-manager", "kubelet", "kubeadm"}, f.Manager) {
				t.Errorf("%s has written Node %s", f.Manager, n.Name)
			}
		}
	}
	return strings.Join(names, ", ")
}

// rehearse wants an exit status and what is said of Nodes, and that no Node has changed.
func (l *lab) rehearse(t *testing.T, command string, code int, want []rehearsed) {
	t.Helper()
	before, start := l.untouched(t), time.Now()
	r := l.sh(t, "cp1", command+" 2>/tmp/err")
	t.Logf("%s took %.1f s:\n%s", command, time.Since(start).Seconds(), r.out)
	if r.code != code {
		t.Errorf("exit status %d, want %d\n%s%s", r.code, code, l.sh(t, "cp1", "cat /tmp/err").out, l.sh(t, "cp1", "tail -n 20 /tmp/ccm.log").out)
	}
	for _, w := range want {
		found := slices.ContainsFunc(strings.Split(r.out, "\n"), func(line string) bool {
			var v struct{ Node, Outcome, Message string }
			return json.Unmarshal([]byte(line), &v) == nil && v.Node == w.name && v.Outcome == w.outcome && strings.Contains(v.Message, w.words)
		})
		if !found {
			t.Errorf("%s is not %s %s", w.name, w.outcome, w.words)
		}
	}
	if after := l.untouched(t); after != before {
		t.Errorf("Nodes have changed from\n%s\nto\n%s", before, after)
	}
}

// rehearseFails wants no Node recognized, with the cloud's own words: the program ends, which is an error (1), or knows no
// Node (6).
func (l *lab) rehearseFails(t *testing.T, command, words string) {
	t.Helper()
	before := l.untouched(t)
	r := l.sh(t, "cp1", command)
	t.Logf("%s", r.out)
	if r.code != 1 && r.code != 6 || !strings.Contains(r.out, words) || strings.Contains(r.out, `"Recognized"`) || strings.Contains(r.out, `"WouldBeDeleted"`) {
		t.Errorf("exit status %d, want 1 or 6, %q and no Node recognized or deleted\n%s", r.code, words, l.sh(t, "cp1", "tail -n 20 /tmp/ccm.log").out)
	}
	if after := l.untouched(t); after != before {
		t.Errorf("Nodes have changed from\n%s\nto\n%s", before, after)
	}
}
