package balancer

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// A pool that was deleted and made again under the same name gets nothing of the former one's status, and is looked at
// again.
func TestCluster_PoolMadeAgain(t *testing.T) {
	c := newCluster(t)
	c.end()
	former, err := c.objects.AddressPools.Create(t.Context(), addressPool("other", "192.0.2.50"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.objects.AddressPools.Delete(t.Context(), "other", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.objects.AddressPools.Create(t.Context(), addressPool("other", "192.0.2.60"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b := &Balancer{dirty: make(chan struct{}, 1)}
	written, err := writeStatus(t.Context(), b, c.objects.AddressPools, former, &v1alpha1.AddressPoolStatus{Assigned: 1})
	if written || err != nil {
		t.Errorf("written: %t, %v", written, err)
	}
	if len(b.dirty) != 1 {
		t.Error("no further pass is asked for")
	}
	pool, err := c.objects.AddressPools.Get(t.Context(), "other", metav1.GetOptions{})
	if err != nil || pool.Status.Assigned != 0 {
		t.Errorf("%v: the status is the former one's: %+v", err, pool.Status)
	}
	written, err = writeStatus(t.Context(), b, c.objects.AddressPools, pool, &v1alpha1.AddressPoolStatus{Assigned: 1})
	if !written || err != nil {
		t.Errorf("of the pool itself: written: %t, %v", written, err)
	}
}

// Services that come one after the other change the numbers of their pool in each pass. These are written about once a second, and the last
// ones, too.
func TestCluster_PoolCountedInABurst(t *testing.T) {
	const count = 100
	c := newCluster(t, addressPool("lan", "10.200.0.0/22"))
	c.create("first")
	c.within(5*time.Second, "first", reasonIs(allocator.AnnouncedReason))
	time.Sleep(2 * countEvery)
	w, err := c.objects.AddressPools.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	began, writes := time.Now(), -1 // the first is what there is
	for n := range count {
		c.create(fmt.Sprint("s", n), func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = new(false) })
		time.Sleep(20 * time.Millisecond)
	}
	for deadline := time.After(time.Minute); ; {
		select {
		case e := <-w.ResultChan():
			writes++
			if pool, is := e.Object.(*v1alpha1.AddressPool); !is || pool.Status.Assigned != count+1 {
				continue
			}
		case <-deadline:
			t.Fatal("the last numbers are not written")
		}
		break
	}
	took := time.Since(began)
	if most := int(took/countEvery) + 2; writes > most {
		t.Errorf("the pool was written %d times in %s", writes, took)
	}
	t.Logf("the pool was written %d times in %s", writes, took.Round(time.Millisecond))
}
