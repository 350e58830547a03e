package serving

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
)

// A Node whose deletion no watch has shown is forgotten, too.
func TestPolicy_ForgetsNodes(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", UID: "1"}}
	node.Spec.ProviderID = "aws:///a/i-1"
	source.Add(node)
	informer := cache.NewSharedIndexInformer(source, &corev1.Node{}, 0, nil)
	p := &Policy{Now: time.Now}
	if err := p.Follow(informer); err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(t.Context())
	wait := func(want int) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			p.mu.Lock()
			got := len(p.seen)
			p.mu.Unlock()
			if got == want {
				return
			}
			if time.Since(began) > 10*time.Second {
				t.Fatalf("it remembers %d Nodes, want %d", got, want)
			}
		}
	}
	wait(1)
	source.DeleteDropWatch(node)
	source.ResetWatch()
	wait(0)
}
