package conformance_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/ccmadm/ccmadm/provider/conformance"
)

// subject makes this test binary run the test of a broken provider, as its author would.
const subject = "CONFORMANCE_TEST_SUBJECT"

// Run fails the subtest of the rule and says why it matters, and skips what is not offered by its name.
func TestCluster_Run(t *testing.T) {
	if os.Getenv(subject) != "" {
		conformance.Run(t, conformance.Options{
			Config: plane.Config, Patience: 30 * time.Second,
			New: func() (conformance.Cloud, error) {
				s := newScripted()
				s.loadBalancer, s.routing = false, false
				edit(func(_ *corev1.Node, m *cloudprovider.InstanceMetadata) { m.NodeAddresses = m.NodeAddresses[:1] })(s)
				return s.cloud(), nil
			},
		})
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCluster_Run$", "-test.v")
	cmd.Env = append(os.Environ(), subject+"=yes")
	output, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("the test of a broken provider passes")
	}
	for _, want := range []string{
		"--- FAIL: TestCluster_Run/provided-node-ip-list ",
		"--node-ip of a dual-stack machine names two addresses",
		"--- PASS: TestCluster_Run/provided-node-ip ",
		"--- SKIP: TestCluster_Run/route-is-created ",
		"not offered: Routes",
	} {
		if !strings.Contains(string(output), want) {
			t.Errorf("the output has no %q", want)
		}
	}
	if failures := strings.Count(string(output), "--- FAIL: TestCluster_Run/"); failures != 1 {
		t.Errorf("got %d rules that fail, want 1", failures)
	}
	if t.Failed() {
		t.Logf("%s", output)
	}
}

// Real Nodes are not to be deleted by a test of deletion.
func TestCluster_RefusesNodes(t *testing.T) {
	client, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	nodes := client.CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "real"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	results := conformance.Check(t.Context(), conformance.Options{
		Config: plane.Config,
		New:    func() (conformance.Cloud, error) { return newScripted().cloud(), nil },
	})
	if want := len(conformance.Rules()); len(results) != want {
		t.Errorf("%d rules were checked, want %d", len(results), want)
	}
	for _, r := range results {
		if r.Err == nil || !strings.Contains(r.Err.Error(), "the API server has Nodes (real)") {
			t.Errorf("%s: got error %v", r.Rule.Name, r.Err)
		}
	}
	if err := nodes.Delete(t.Context(), "real", metav1.DeleteOptions{}); err != nil {
		t.Errorf("the Node was touched: %v", err)
	}
}

// The page is where an author looks a failed rule up.
func TestReference_NamesEveryRule(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/conformance-rules.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range conformance.Rules() {
		if !strings.Contains(string(page), "`"+rule.Name+"`") {
			t.Errorf("the page does not name %s", rule.Name)
		}
		if rule.Why == "" {
			t.Errorf("%s has no reason", rule.Name)
		}
	}
}
