package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/templates"
)

// cloudState is what test/e2e/fakecloud reads.
type cloudState struct {
	Region   string         `json:"region"`
	Key      string         `json:"key"`
	Denied   bool           `json:"denied"`
	Machines []cloudMachine `json:"machines"`
}

type cloudMachine struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Address string `json:"address"`
	Zone    string `json:"zone"`
	Type    string `json:"type"`
	State   string `json:"state"`
	Cluster string `json:"cluster"`
}

const (
	cloudPort  = "8773"
	cloudNode  = "w2" // a machine of the lab that is no node of the cluster
	cloudKey   = "LABACCESSKEY"
	cloudFile  = "/tmp/cloud.json"
	realConfig = "/tmp/k.yaml"
	cloudConf  = "/tmp/cloud.conf"
)

// metadataService gives the fake cloud the address at which machines of most clouds ask who they are.
const metadataService = `nft add table ip cloud; nft add chain ip cloud output '{ type nat hook output priority -100; }'
nft add rule ip cloud output ip daddr 169.254.169.254 tcp dport 80 dnat to %s`

// loadCCM builds a vendor's cloud-controller-manager where the cache lacks it, and puts its image on every machine.
// It returns the folder that it was built in.
func (l *lab) loadCCM(t *testing.T, name string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, labBinary, "ccm", name)
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lab ccm %s: %v\n%s", name, err, log.String())
	}
	t.Logf("lab ccm %s: %s", name, strings.TrimSpace(log.String()))
	archive := strings.TrimSpace(string(out))
	l.run(t, "load", "--name", l.name, archive)
	return filepath.Dir(archive)
}

// startCloud runs the fake cloud on a machine, so that the others reach it.
func (l *lab) startCloud(t *testing.T, state cloudState) (address string) {
	t.Helper()
	address = l.runCloud(t, buildProgram(t, "fakecloud"), state)
	for _, node := range l.nodes {
		if node != cloudNode {
			l.must(t, node, fmt.Sprintf(metadataService, address))
		}
	}
	return address
}

// runCloud runs any program that plays a cloud.
func (l *lab) runCloud(t *testing.T, program string, state cloudState) (address string) {
	t.Helper()
	l.run(t, "cp", "--name", l.name, program, cloudNode+":/usr/local/bin/cloud")
	l.setCloud(t, state)
	address = l.address(t, cloudNode) + ":" + cloudPort
	l.must(t, cloudNode, "systemd-run --quiet --unit cloud cloud --listen "+address+" --state "+cloudFile)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what the cloud was asked:\n%s", l.sh(t, cloudNode, "journalctl -u cloud -o cat --no-pager -n 30").out)
		}
	})
	return address
}

// setCloud replaces the cloud's state as a whole.
func (l *lab) setCloud(t *testing.T, state cloudState) {
	t.Helper()
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	l.must(t, cloudNode, fmt.Sprintf("cat > %[1]s.new <<'END'\n%[2]s\nEND\nmv %[1]s.new %[1]s", cloudFile, data))
}

// asked counts the requests that the cloud has had, those with the text in them.
func (l *lab) asked(t *testing.T, text string) int {
	t.Helper()
	return strings.Count(l.must(t, cloudNode, "journalctl -u cloud -o cat --no-pager"), text)
}

func (l *lab) address(t *testing.T, node string) string {
	t.Helper()
	return strings.Fields(l.must(t, node, "hostname -I"))[0]
}

// configure writes the files that the user of a cloud has: kubeadm's with our document, and the provider's own.
func (l *lab) configure(t *testing.T, document string, files map[string]string) {
	t.Helper()
	for path, content := range files {
		l.must(t, "cp1", fmt.Sprintf("install -m 600 /dev/null %[1]s && cat > %[1]s <<'END'\n%[2]sEND\n", path, content))
	}
	document = withRelease(t, document)
	l.must(t, "cp1", "(cat "+kubeadmYAML+"; cat <<'END'\n---\napiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\n"+document+"END\n) > "+realConfig)
}

// withRelease names the provider's newest release where the profile has none for this Kubernetes, as the error says that
// a user should: vendors release weeks after a minor.
func withRelease(t *testing.T, document string) string {
	t.Helper()
	name := regexp.MustCompile(`(?m)^provider: (\S+)$`).FindStringSubmatch(document)
	if name == nil || strings.Contains(document, "controllerManager:") {
		return document
	}
	p, err := templates.Load(name[1])
	if err != nil {
		t.Fatal(err)
	}
	if tags := p.Image.Tags; len(tags) > 0 && tags[*kubernetesMinor] == "" {
		newest := slices.Max(slices.Collect(maps.Keys(tags)))
		document += "controllerManager: {version: " + tags[newest] + "}\n"
	}
	return document
}

// ours leaves out what kubeadm prints.
func ours(output string) string {
	var lines []string
	for line := range strings.SplitSeq(output, "\n") {
		for _, phase := range []string{"[cloud-config]", "[control-plane]", "[rbac]", "[addon]", "[preflight] ", " Addressed "} {
			if strings.Contains(line, phase) {
				lines = append(lines, line)
				break
			}
		}
	}
	return strings.Join(lines, "\n")
}

// wantNode is what a real controller manager has made of a machine.
type wantNode struct{ providerID, zone, region, kind, address string }

func (l *lab) expectNode(t *testing.T, name string, want wantNode) {
	t.Helper()
	n, ok := l.nodesNow(t)[name]
	if !ok {
		t.Fatalf("node %s is not in the cluster", name)
	}
	got := wantNode{
		providerID: n.Spec.ProviderID, zone: n.Labels[corev1.LabelTopologyZone], region: n.Labels[corev1.LabelTopologyRegion],
		kind: n.Labels[corev1.LabelInstanceTypeStable],
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			got.address += a.Address
		}
	}
	if got != want {
		t.Errorf("node %s\n got %+v\nwant %+v", name, got, want)
	}
	for _, tt := range n.Spec.Taints {
		if tt.Key == taint {
			t.Errorf("node %s still has taint %s", name, taint)
		}
	}
}

// expectNothingForbiddenInLog is about RBAC: the vendor's program says it when a permission is missing.
func (l *lab) expectNothingForbiddenInLog(t *testing.T) {
	t.Helper()
	logs := l.kubectl(t, "-n kube-system logs -l component=cloud-controller-manager --tail -1")
	for line := range strings.SplitSeq(logs, "\n") {
		if strings.Contains(line, "is forbidden") {
			t.Errorf("a permission is missing: %s", line)
		}
	}
}
