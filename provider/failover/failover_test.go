package failover

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

func TestRound_PowerCut(t *testing.T) {
	c := newCluster(t, 3)
	c.pass(t, 2)
	c.dies("n2")
	c.pass(t, 12) // the Lease is looked at from the first second on
	c.expect(t, "")
	c.pass(t, 1)
	c.expect(t, "n2")
	c.pass(t, 60)
	c.expect(t, "n2")
	const want = "it does not answer at 192.0.2.2, nor does its kubelet renew its Lease: 1 pod set to not Ready"
	if len(c.events.Events) != 1 || !strings.Contains(<-c.events.Events, want) {
		t.Errorf("%d events are left, want one, of that Node", len(c.events.Events))
	}
	delete(c.answers, "n2")
	c.pass(t, 1)
	c.dies("n2")
	c.pass(t, 25)
	if len(c.events.Events) != 1 {
		t.Errorf("%d events of the second time, want one", len(c.events.Events))
	}
}

// Several may go at once, as long as a half of the others is there.
func TestRound_Several(t *testing.T) {
	c := newCluster(t, 7)
	c.pass(t, 2)
	c.dies("n2", "n3", "n4")
	c.pass(t, 20)
	c.expect(t, "n2 n3 n4")
}

// A machine that keeps the last endpoints of a Service is seen to again and again, without a question to the API server about endpoints.
// Nothing is withdrawn as long as endpoints are not known.
func TestRound_EndpointsFromTheCache(t *testing.T) {
	c := newCluster(t, 4)
	c.add(t, slice("only", "n2", ref("last", "last")))
	c.pass(t, 2)
	known := false
	c.Slices = func() ([]*discoveryv1.EndpointSlice, bool) { return c.slices, known }
	c.dies("n2")
	c.pass(t, 60)
	c.expect(t, "")
	known = true
	c.pass(t, 300)
	for _, action := range c.client.Actions() {
		if action.GetResource().Resource == "endpointslices" {
			t.Fatalf("the API server was asked to %s endpointslices", action.GetVerb())
		}
	}
	c.add(t, slice("only", "n4"))
	c.pass(t, 6)
	c.expect(t, "n2")
}

// Each of these alone keeps the endpoints.
func TestRound_Stays(t *testing.T) {
	all := []string{"n1", "n2", "n3", "n4"}
	for name, disturb := range map[string]func(t *testing.T, c *cluster){
		"its kubelet renews its Lease": func(_ *testing.T, c *cluster) { c.answers["n2"] = Silent },
		"most others are silent, too":  func(_ *testing.T, c *cluster) { c.dies("n2", "n3") },
		"most others cannot be asked": func(_ *testing.T, c *cluster) {
			c.dies("n2")
			c.answers["n3"], c.answers["n4"] = Unknown, Unknown
		},
		"it cannot be asked":          func(_ *testing.T, c *cluster) { c.dies("n2"); c.answers["n2"] = Unknown },
		"nobody's kubelet renews":     func(_ *testing.T, c *cluster) { c.dies("n2"); stall(c, all...) },
		"most kubelets do not renew":  func(_ *testing.T, c *cluster) { c.dies("n2"); stall(c, "n3", "n4") },
		"the API server says nothing": func(_ *testing.T, c *cluster) { c.dies("n2"); c.fails("list", "leases", 503) },
		"nor does it now and then":    func(_ *testing.T, c *cluster) { c.dies("n2"); c.failsSometimes() },
		"it has no Lease": func(t *testing.T, c *cluster) {
			c.dies("n2")
			if err := c.client.Tracker().Delete(leasesKind, corev1.NamespaceNodeLease, "n2"); err != nil {
				t.Fatal(err)
			}
		},
		"it answers again and again":                          func(t *testing.T, c *cluster) { c.flaps(t, "n2") },
		"the API server takes long, and meanwhile it answers": func(_ *testing.T, c *cluster) { c.slow("n2") },
		"its kubelet goes on for a while": func(t *testing.T, c *cluster) {
			c.answers["n2"] = Silent
			c.pass(t, 15)
			c.answers["n2"] = Unknown
			c.pass(t, 1)
			c.dies("n2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 4)
			c.pass(t, 2)
			if strings.HasPrefix(name, "most others are silent") {
				c = newCluster(t, 3)
				c.pass(t, 2)
			}
			disturb(t, c)
			c.pass(t, 45)
			c.expect(t, "")
		})
	}
}

func stall(c *cluster, names ...string) {
	for _, name := range names {
		c.stalled[name] = true
	}
}

// The machine beside this one has to renew as well: that of this process always reaches its own API server.
func TestRound_OthersRenew(t *testing.T) {
	c := newCluster(t, 3)
	c.pass(t, 2)
	c.dies("n2")
	stall(c, "n3")
	c.pass(t, 45)
	c.expect(t, "")
}

// Behind a time in which nobody could renew, or most were silent, a kubelet has all of its time again.
func TestRound_BeginsAnew(t *testing.T) {
	for name, disturb := range map[string]func(c *cluster){
		"nobody renewed": func(c *cluster) { stall(c, "n1", "n2", "n3", "n4", "n5") },
		"cut off": func(c *cluster) {
			stall(c, "n2")
			c.answers["n3"], c.answers["n4"], c.answers["n5"] = Silent, Silent, Silent
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 5)
			c.pass(t, 2)
			c.answers["n2"] = Silent
			disturb(c)
			c.pass(t, 37)
			c.stalled = map[string]bool{"n2": true}
			c.answers = map[string]Answer{"n2": Silent}
			c.pass(t, 9)
			c.expect(t, "")
			c.stalled = map[string]bool{}
			c.pass(t, 60)
			c.expect(t, "")
		})
	}
}

// A machine whose port was closed later costs no questions about Leases.
func TestRound_Firewalled(t *testing.T) {
	c := newCluster(t, 3)
	c.pass(t, 2)
	c.answers["n2"] = Silent
	c.pass(t, 300)
	lists := 0
	for _, action := range c.client.Actions() {
		if action.Matches("list", "leases") {
			lists++
		}
	}
	if lists > 30 {
		t.Errorf("Leases were listed %d times in 300 s", lists)
	}
}

// Of two machines neither can tell whether the other is dead.
func TestRound_Two(t *testing.T) {
	c := newCluster(t, 2)
	c.pass(t, 2)
	c.dies("n2")
	c.pass(t, 45)
	c.expect(t, "")
}

// The last endpoint of a Service stays: there is nowhere else to send. It goes when there is.
func TestRound_LastEndpoint(t *testing.T) {
	c := newCluster(t, 4)
	c.add(t, slice("only", "n2"))
	c.pass(t, 2)
	c.dies("n2")
	c.pass(t, 30)
	c.expect(t, "")
	c.add(t, slice("only", "n4"))
	c.pass(t, 6)
	c.expect(t, "n2")
}

// A machine that has not answered this process is none that has fallen silent: a firewall may drop the question.
func TestRound_NeverAnswered(t *testing.T) {
	c := newCluster(t, 3)
	c.dies("n2")
	c.pass(t, 45)
	c.expect(t, "")
}

// What the API server refuses of one pod holds up no other, and is tried again. So do pods that are gone, names that
// are none, and what another namespace says of a pod.
func TestRound_Again(t *testing.T) {
	c := newCluster(t, 4)
	evil := slice("evil", "n2", ref("on-n2", "pod-n2"), ref("a/b", "b"), ref("", "c"), ref("on-n3", ""))
	evil.Namespace = "elsewhere"
	second := podOn("n2")
	second.Name, second.UID = "refused", "refused"
	c.add(t, slice("web2", "n2", ref("gone", "gone"), ref("refused", "refused")), slice("web2", "n4"), second, evil)
	c.client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if c.asked < 40 && a.(clienttesting.PatchAction).GetName() == "refused" {
			return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "refused", nil)
		}
		return false, nil, nil
	})
	c.pass(t, 2)
	c.dies("n2")
	c.pass(t, 20)
	c.expect(t, "n2")
	c.pass(t, 30)
	c.expect(t, "n2 n2")
}

// Run ends with its context, whether or not the informer has ever synced.
func TestRun_Ends(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	c.Nodes = cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Node{}, 0, nil)
	cancel()
	c.Run(ctx)
}
