package fleet

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/phases/phasestest"
)

// What tests of phases see of a kubelet does not depend on what this network does with packets to an address that no machine has.
func TestCluster_NoKubeletIsReached(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	phasestest.AddNode(t, client, "nowhere", "192.0.2.1", nil)
	began := time.Now()
	answer, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name("nowhere").SubResource("proxy").Suffix("configz").DoRaw(t.Context())
	if took := time.Since(began); err == nil || !strings.Contains(string(answer), "dial unix") || took > 20*time.Second {
		t.Errorf("after %s the API server says %q: %v", took, answer, err)
	}
}
