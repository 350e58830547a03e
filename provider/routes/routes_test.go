package routes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	testCluster = "test"
	uidC        = types.UID("3b0f4a4e-4b1e-4d5c-9a0e-5d2f3f0c7c11")
)

// An agent lives as long as its report changes, whatever its clock says.
func TestRoutes_ClocksOfAgents(t *testing.T) {
	start := time.Now()
	for name, skew := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			var r reports
			agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
			write := func(after time.Duration) {
				agent = agent.DeepCopy()
				agent.Status.RenewTime = metav1.NewMicroTime(start.Add(after + skew))
				r.take(start.Add(after), agent)
			}
			check := func(after time.Duration, want bool) {
				t.Helper()
				if _, err := r.asked(start.Add(after)); (err == nil) != want {
					t.Errorf("%s later: got error %v, want live: %v", after, err, want)
				}
			}
			write(0)
			check(50*time.Second, true)
			write(55 * time.Second)
			check(110*time.Second, true)
			r.take(start.Add(114*time.Second), agent) // a list again: nothing new
			check(116*time.Second, false)
			write(200 * time.Second)
			check(201*time.Second, true)
			lease := &v1alpha1.NodeAgentLease{ObjectMeta: agent.ObjectMeta, RenewTime: metav1.NewMicroTime(start.Add(skew - time.Hour))}
			r.take(start.Add(249*time.Second), lease) // the first may be old
			lease = &v1alpha1.NodeAgentLease{ObjectMeta: agent.ObjectMeta, RenewTime: metav1.NewMicroTime(start.Add(skew))}
			r.take(start.Add(250*time.Second), lease)
			check(300*time.Second, true)
			r.take(start.Add(305*time.Second), lease) // a list again
			check(311*time.Second, false)
		})
	}
}

// What a route to c needs, and what it does not wait for.
func TestRoutes_Acknowledged(t *testing.T) {
	const fresh, stale = time.Second, 2 * time.Minute
	elsewhere := said("a", fresh, "abc", "")
	elsewhere.Routes[2].Via = "192.0.2.99"
	for _, tt := range []struct {
		name    string
		agents  []spoken
		wantErr string
	}{
		{name: "all agents have it", agents: []spoken{
			said("a", fresh, "abc", ""), said("b", fresh, "abc", ""), said("c", fresh, "abc", ""),
		}},
		{
			name: "most have not reported it yet", agents: []spoken{
				said("a", fresh, "ab", ""), said("b", fresh, "ab", ""), said("c", fresh, "abc", ""),
			},
			wantErr: "2 of 3 agents have no route to Node/c, first that of Node/a: it has not reported one yet",
		},
		{
			name: "one has a route to an address that the Node had, another none", agents: []spoken{
				elsewhere, said("b", fresh, "ab", ""), said("c", fresh, "abc", ""),
			},
			wantErr: "2 of 3 agents have no route to Node/c, first that of Node/a",
		},
		{name: "a dead agent does not hold it up", agents: []spoken{
			said("a", fresh, "abc", ""), said("b", stale, "ab", ""), said("c", fresh, "abc", ""),
		}},
		{name: "a Node whose agent has died keeps its network", agents: []spoken{
			said("a", fresh, "abc", ""), said("b", fresh, "abc", ""), said("c", stale, "abc", ""),
		}},
		{
			name: "an agent that says why", agents: []spoken{
				said("a", fresh, "ab", "c"), said("b", fresh, "ab", ""), said("c", fresh, "abc", ""),
			},
			wantErr: "Unreachable: no way",
		},
		{name: "a single agent does not make a Node unavailable", agents: []spoken{
			said("a", fresh, "ab", "c"), said("b", fresh, "abc", ""), said("c", fresh, "abc", ""),
		}},
		{name: "nor does it where there are two", agents: []spoken{
			said("a", fresh, "ab", "c"), said("c", fresh, "abc", ""),
		}},
		{
			name: "the Node's own agent does", agents: []spoken{
				said("a", fresh, "abc", ""), said("b", fresh, "abc", ""), said("c", fresh, "ab", "c"),
			},
			wantErr: "the agent of Node/c has no route for its own pods: Unreachable: no way",
		},
		{name: "many refused ranges of one Node are one Node's", agents: []spoken{
			said("a", fresh, "abc", ""), said("b", fresh, "abc", ""), withRefused(said("c", fresh, "abc", "")),
		}},
		{
			name: "a report of a Node of that name that was before", agents: []spoken{
				said("a", fresh, "abc", ""), said("b", fresh, "abc", ""), before(func(n spoken) {
					n.OwnerReferences[0].UID = "another"
				}),
			},
			wantErr: "no node agent has reported from Node/c since the Node was created",
		},
		{name: "a report of this Node", agents: []spoken{
			said("a", fresh, "abc", ""), said("b", fresh, "abc", ""), before(func(spoken) {}),
		}},
		{
			name: "the Node that reaches nobody is the one without a network", agents: []spoken{
				said("a", fresh, "ab", "c"), said("b", fresh, "ab", "c"), said("c", fresh, "c", "ab"),
			},
			wantErr: "from Node/c, most others are out of reach: route to 10.244.0.0/24: Unreachable: no way",
		},
		{
			name: "nobody has reported from the Node", agents: []spoken{
				said("a", fresh, "abc", ""), said("b", fresh, "abc", ""),
			},
			wantErr: "no node agent has ever reported from Node/c",
		},
		{
			name: "an agent that does not set routes", agents: []spoken{
				said("a", fresh, "abc", ""), said("c", fresh, "", ""),
			},
			wantErr: "the agent of Node/c has set no route yet",
		},
		{name: "an agent that has only just started does not hold up others", agents: []spoken{
			said("a", fresh, "", ""), said("b", fresh, "abc", ""), said("c", fresh, "abc", ""),
		}},
		{name: "nor one that reaches nobody", agents: []spoken{
			said("a", fresh, "a", "bc"), said("b", fresh, "abc", ""), said("c", fresh, "abc", ""),
		}},
		{name: "nor one whose Node is gone", agents: []spoken{
			said("a", fresh, "abc", ""), said("gone", fresh, "ab", ""), said("c", fresh, "abc", ""),
		}},
		{
			name:    "no agent at all",
			wantErr: "no node agent has ever reported: `ccmadm init --routes` installs it",
		},
		{
			name: "agents that have all fallen silent", agents: []spoken{
				said("a", stale, "abc", ""), said("b", stale, "abc", ""), said("c", stale, "abc", ""),
			},
			wantErr: "none of 3 node agents has reported for 1m0s",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := served(t, "")
			r.hear(tt.agents...)
			waits := 100 * time.Millisecond // instead of five seconds
			if tt.wantErr == "" {
				waits = time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), waits)
			defer cancel()
			err := r.CreateRoute(ctx, testCluster, "", routeTo(nodeC))
			if tt.wantErr == "" {
				if err != nil {
					t.Fatal(err)
				}
				list, err := r.ListRoutes(t.Context(), testCluster)
				if err != nil || len(list) != 1 || list[0].TargetNode != "c" || !list[0].EnableNodeAddresses {
					t.Errorf("got %v and error %v, want the route to c", list, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
}

// CreateRoute waits for the agents, and no longer than that.
func TestRoutes_CreateWaits(t *testing.T) {
	r := served(t, "")
	r.hear(said("a", 0, "ab", ""), said("b", 0, "ab", ""), said("c", 0, "abc", ""))
	start := time.Now()
	go func() {
		time.Sleep(200 * time.Millisecond)
		r.hear(said("a", 0, "abc", ""), said("b", 0, "abc", ""))
	}()
	if err := r.CreateRoute(t.Context(), testCluster, "", routeTo(nodeC)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 200*time.Millisecond || took >= patience {
		t.Errorf("it took %s", took)
	}
}

// Upstream tells an address that has changed by the addresses that the route was made for.
func TestRoutes_List(t *testing.T) {
	r := served(t, "")
	r.hear(said("a", 0, "abc", ""), said("b", 0, "abc", ""), said("c", 0, "abc", ""))
	if err := r.CreateRoute(t.Context(), testCluster, "", routeTo(nodeB)); err != nil {
		t.Fatal(err)
	}
	want := []*cloudprovider.Route{{
		Name: "b 10.244.1.0/24", TargetNode: "b", DestinationCIDR: "10.244.1.0/24",
		EnableNodeAddresses: true, TargetNodeAddresses: nodeB.Status.Addresses,
	}}
	list := func(cluster string, want []*cloudprovider.Route) {
		t.Helper()
		got, err := r.ListRoutes(t.Context(), cluster)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	list(testCluster, want)
	list("another", nil)
	if err := r.DeleteRoute(t.Context(), testCluster, want[0]); err != nil {
		t.Fatal(err)
	}
	list(testCluster, nil)
}

// Reports that were all deleted leave routes and conditions as they are, for a leader that began after that, too.
func TestRoutes_Uninstalled(t *testing.T) {
	r := served(t, "")
	all := []spoken{said("a", 0, "abc", ""), said("b", 0, "abc", ""), said("c", 0, "abc", "")}
	r.hear(all...)
	if err := r.CreateRoute(t.Context(), testCluster, "", routeTo(nodeB)); err != nil {
		t.Fatal(err)
	}
	refused := func(r *Routes) {
		t.Helper()
		list, err := r.ListRoutes(t.Context(), testCluster)
		if err == nil || !strings.Contains(err.Error(), "no node agent reports any more: they were uninstalled") {
			t.Errorf("got %v and error %v", list, err)
		}
	}
	for _, agent := range all {
		r.reports.OnDelete(agent.lives())
		r.reports.OnDelete(agent.NodeRoutes)
	}
	refused(r)
	refused(served(t, "", withCondition(nodeB, "RouteCreated", time.Hour)))
	r.hear(all...)
	if list, err := r.ListRoutes(t.Context(), testCluster); err != nil || len(list) != 1 {
		t.Errorf("installed again: got %v and error %v, want the route", list, err)
	}
	if list, err := served(t, "").ListRoutes(t.Context(), testCluster); err != nil || len(list) > 0 {
		t.Errorf("never installed: got %v and error %v, want none", list, err)
	}
}

// What cannot be known is an error: an empty list would have every route made again, and every Node marked.
func TestRoutes_Refuses(t *testing.T) {
	unknown := served(t, "")
	unknown.Synced = func() error { return errors.New("list NodeAgents: no answer yet") }
	silent := served(t, "")
	silent.hear(said("a", 2*time.Minute, "abc", ""))
	for _, tt := range []struct {
		name    string
		routes  *Routes
		wantErr string
	}{
		{"reports that are not known yet", unknown, "no answer yet"},
		{"agents that are silent", silent, "none of 1 node agents has reported"},
		{
			"a network add-on", served(t, "DaemonSet/kube-flannel/kube-flannel-ds is a network add-on that owns the routes"),
			"serve routes: DaemonSet/kube-flannel/kube-flannel-ds is a network add-on",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, err := tt.routes.ListRoutes(t.Context(), testCluster)
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("ListRoutes: got %v and error %v, want %q", list, err, tt.wantErr)
			}
			if err := tt.routes.CreateRoute(t.Context(), testCluster, "", routeTo(nodeC)); err == nil {
				t.Error("CreateRoute: no error")
			}
		})
	}
}
