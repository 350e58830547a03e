package adoption

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// An API server that answers nothing for a while stops no node half way: what is asked of it there is asked again.
func TestCluster_Adopt_ServerAway(t *testing.T) {
	m, client := plain(t)
	var asked atomic.Int32
	away := kubernetes.NewForConfigOrDie(phasestest.Proxied(t, func(w http.ResponseWriter, _ *http.Request) bool {
		if asked.Add(1)%6 < 3 {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return true
		}
		return false
	}))
	pods := fleet.Remote{Via: fleet.ViaPods, Image: "x", LogTimeout: time.Second}
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Remote: pods, NodeTimeout: fleet.NodeTimeout})
	n := &fleet.Node{Name: "w1", IP: "198.18.0.101"}
	a := &adopter{r: r, op: adoptionOf(r), client: away}
	if err := a.look(t.Context(), n); err != nil {
		t.Error(err)
	}
	for _, set := range []bool{true, false} {
		if err := kubelet.Taint(t.Context(), away, n.Name, set); err != nil {
			t.Error(err)
		}
		node, err := client.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{})
		if err != nil || nodes.IsTainted(node) != set {
			t.Errorf("the taint is not as it should be, %v: %v", set, err)
		}
	}
	ran := playPod(t, client, n, corev1.PodStatus{Phase: corev1.PodSucceeded})
	if err := fleet.NewRunner(r.Env, away, adoptionOf(r).Remote, adoptionOf(r).NodeTimeout).Run(t.Context(), n, fleet.Plain{}); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	<-ran
}
