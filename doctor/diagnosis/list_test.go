package diagnosis

import (
	"net/http"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ccmadm/ccmadm/doctor/agreement"
	"github.com/ccmadm/ccmadm/doctor/components"
)

// Somebody whom the API server does not know is told so in one wording, whichever question was answered first. Of an
// answer that is taken raw, client-go makes another message.
func TestUnseen_Unauthorized(t *testing.T) {
	for name, err := range map[string]error{
		"an object": apierrors.NewUnauthorized("Unauthorized"),
		"raw":       apierrors.NewGenericServerResponse(http.StatusUnauthorized, "get", schema.GroupResource{}, "", "", 0, true),
	} {
		if got := Unseen(name, err); got.Message != "Unauthorized" || !apierrors.IsUnauthorized(&got) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A ConfigMap that nothing reads, as one that is left of kube-proxy or CoreDNS, states no setting of the cluster.
func TestDisagreements_Unread(t *testing.T) {
	s := &Snapshot{Kubeadm: "networking:\n  dnsDomain: cluster.local\n  podSubnet: 10.244.0.0/16\n"}
	s.Settings = agreement.Settings{KubeletDomain: "cluster.local", Zones: "corp.local", ProxyCIDR: "10.42.0.0/16"}
	s.Components = &components.Seen{Workloads: []components.Workload{{Name: components.Proxy}, {Name: components.DNS}}}
	var objects []string
	for _, f := range disagreements(s) {
		objects = append(objects, f.Object)
	}
	slices.Sort(objects)
	if want := []string{"ConfigMap/kube-system/coredns", "ConfigMap/kube-system/kube-proxy"}; !slices.Equal(objects, want) {
		t.Errorf("with both: got %v, want %v", objects, want)
	}
	s.Components.Workloads = nil
	if list := disagreements(s); len(list) > 0 || s.Settings.Zones == "" {
		t.Errorf("without: got %+v of %+v", list, s.Settings)
	}
	s.NotSeen = []NotSeen{{What: partDaemonSets, Message: "forbidden"}, {What: partDeployments, Message: "forbidden"}}
	if list := disagreements(s); len(list) != 2 {
		t.Errorf("where it is not known: got %+v", list)
	}
}
