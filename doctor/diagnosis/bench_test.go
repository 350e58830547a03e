package diagnosis

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/templates"
)

// BenchmarkCluster looks at clusters of many Nodes, and prints what it took. Set NODES to look at one size only.
func BenchmarkCluster(b *testing.B) {
	sizes := []int{1000, 5000}
	if text := os.Getenv("NODES"); text != "" {
		if _, err := fmt.Sscan(text, &sizes[0]); err != nil {
			b.Fatal(err)
		}
		sizes = sizes[:1]
	}
	for _, size := range sizes {
		b.Run(fmt.Sprintf("%d-Nodes", size), func(b *testing.B) {
			l := newLab(b)
			l.account()
			l.Interface = quick()
			l.write(newSnapshot(templates.Deployment, size-1, fresh, tainted))
			b.ResetTimer()
			for b.Loop() {
				runtime.GC()
				stop, peak := watchHeap()
				var requests atomic.Int64
				s := l.look(client(cluster.Config, &requests))
				d := Diagnose(s)
				stop()
				var document bytes.Buffer
				l.must(s.Write(&document))
				b.ReportMetric(float64(requests.Load()), "requests/op")
				b.ReportMetric(float64(peak.Load())/1e6, "heap-MB")
				b.ReportMetric(float64(document.Len())/1e6, "snapshot-MB")
				if len(d.Nodes) != size || len(d.NotSeen) > 0 {
					b.Errorf("got %d Nodes, not seen %v", len(d.Nodes), d.NotSeen)
				}
			}
		})
	}
}

// quick is an administrator who does not wait.
func quick() kubernetes.Interface {
	config := rest.CopyConfig(cluster.Config)
	config.QPS = -1
	return kubernetes.NewForConfigOrDie(config)
}

// watchHeap notes the largest heap until it is stopped.
func watchHeap() (stop func(), peak *atomic.Uint64) {
	done, ended := make(chan struct{}), make(chan struct{})
	peak = &atomic.Uint64{}
	go func() {
		defer close(ended)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapInuse))
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() { close(done); <-ended }, peak
}
