package serving

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A kubelet that changes its Node all the time has its request judged every ten seconds. A change after a rest is looked at at once.
func TestNodeChanged_Pace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := honest()
		f.asked.DNSNames = []string{"vault"}
		a, client, csr := checked(t, f, 0)
		if err := a.requests.GetStore().Add(csr); err != nil {
			t.Fatal(err)
		}
		looks := func() int {
			synctest.Wait()
			n := 0
			for _, action := range client.Actions() {
				if action.Matches("get", "nodes") {
					n++
				}
			}
			return n
		}
		defer a.queue.ShutDown()
		go func() {
			for a.next(t.Context()) {
			}
		}()
		if a.nodeChanged(f.node); looks() != 1 {
			t.Errorf("%d looks at the first change, want one at once", looks())
		}
		for end := time.Now().Add(50 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			a.nodeChanged(f.node)
		}
		if got := looks(); got < 8 || got > 20 { // a change may come as a pause ends
			t.Errorf("%d looks in 50 s of changes, want 8 to 20", got)
		}
		time.Sleep(2 * changePauseMost) // one was still to come
		before := looks()
		if a.nodeChanged(f.node); looks() != before+1 {
			t.Errorf("%d looks at a change after a rest, want one at once", looks()-before)
		}
	})
}

// A request that is decided on or deleted while it is judged does not count as pending for ever.
func TestTell_RequestThatIsGone(t *testing.T) {
	a, _, csr := checked(t, honest(), 0)
	a.tell(csr, hold("Reason", "why"))
	if n := a.told.count(); n != 0 {
		t.Errorf("%d are pending, and the request was deleted", n)
	}
	decided := csr.DeepCopy()
	decided.Status.Certificate = []byte("x")
	store := a.requests.GetStore()
	if err := store.Add(decided); err != nil {
		t.Fatal(err)
	}
	if a.tell(csr, hold("Reason", "why")); a.told.count() != 0 {
		t.Error("it is pending, and was decided on")
	}
	other := csr.DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{Name: csr.Name, UID: "other"}
	if err := store.Update(other); err != nil {
		t.Fatal(err)
	}
	if a.tell(csr, hold("Reason", "why")); a.told.count() != 0 {
		t.Error("it is pending, and another one has its name")
	}
	if err := store.Update(csr); err != nil {
		t.Fatal(err)
	}
	if a.tell(csr, hold("Reason", "why")); a.told.count() != 1 {
		t.Error("it is pending, and not counted")
	}
}
