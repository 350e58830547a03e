package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce/l2"
	"github.com/ccmadm/ccmadm/provider/objects"
)

func TestReporter_Deleted(t *testing.T) {
	named := func(name string) *v1alpha1.NodeAgent {
		return &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	for _, tt := range []struct {
		name   string
		object any
		want   int
	}{
		{name: "its own", object: named("w1"), want: 1},
		{name: "its own, seen late", object: cache.DeletedFinalStateUnknown{Key: "w1", Obj: named("w1")}, want: 1},
		{name: "another's", object: named("w2"), want: 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &reporter{node: "w1", gone: make(chan struct{}, 1)}
			r.deleted(tt.object)
			r.deleted(tt.object) // does not wait
			if got := len(r.gone); got != tt.want {
				t.Errorf("asks for %d reports, want %d", got, tt.want)
			}
		})
	}
}

// An agent that starts again does not take back what the API server has before it knows better: the cloud-controller-manager compares
// addresses of other Nodes with its interfaces.
func TestReporter_StartsAgain(t *testing.T) {
	before := v1alpha1.NodeAgentStatus{
		Voters:        []v1alpha1.VoterList{{ID: "1"}},
		Interfaces:    []v1alpha1.AgentInterface{{Name: "eth0", Addresses: []string{"192.0.2.1/24"}}},
		KernelAnswers: []v1alpha1.KernelAnswer{{Address: "192.0.2.50", On: "kube-ipvs0", Interface: "eth0"}},
	}
	r := &reporter{last: &v1alpha1.NodeAgent{Status: before}}
	r.sources = append(r.sources, l2.New(l2.Options{Node: "w1", KeepVoters: true}).Report)
	now := r.status()
	now.RenewTime = metav1.MicroTime{}
	if diff := cmp.Diff(before, now); diff != "" {
		t.Error(diff)
	}
}

// Routes that are not known yet are no reason to write that there are none.
func TestRoutesReporter_StartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &recording{}
		server.keep(t, "noderoutes", &v1alpha1.NodeRoutes{ObjectMeta: metav1.ObjectMeta{Name: "w1"}, Routes: make([]v1alpha1.AgentRoute, 2)})
		client, err := objects.New(&rest.Config{Host: "http://api", QPS: -1, Transport: server})
		must(t, err)
		start := time.Now()
		r, err := newRoutesReporter(client, "w1", newKnown(t), func() ([]v1alpha1.AgentRoute, []v1alpha1.RouteProblem, bool) {
			if time.Since(start) <= time.Minute {
				return nil, nil, false
			}
			return make([]v1alpha1.AgentRoute, 3), nil, true
		})
		must(t, err)
		r.own = newKnown(t)
		go r.run(t.Context())
		time.Sleep(time.Minute)
		if n := server.count("noderoutes", start); n > 0 {
			t.Errorf("before routes are known they were written %d times", n)
		}
		time.Sleep(time.Second)
		r.changed()
		time.Sleep(time.Second)
		var routes v1alpha1.NodeRoutes
		if server.get(t, "noderoutes", &routes); len(routes.Routes) != 3 {
			t.Errorf("routes are %v", routes.Routes)
		}
	})
}
