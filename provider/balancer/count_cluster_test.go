package balancer

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
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
