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

// large is a cluster of many Nodes, and what a look at it may take. Zero: whatever it takes.
type large struct {
	nodes  int
	within time.Duration
	heapMB float64
}

// BenchmarkCluster looks at clusters of many Nodes, and prints what it took. Set NODES to look at one size only.
func BenchmarkCluster(b *testing.B) {
	sizes := []large{{1000, 5 * time.Second, 150}, {5000, 15 * time.Second, 0}}
	if text := os.Getenv("NODES"); text != "" {
		sizes = []large{{}}
		if _, err := fmt.Sscan(text, &sizes[0].nodes); err != nil {
			b.Fatal(err)
		}
	}
	for _, size := range sizes {
		b.Run(fmt.Sprintf("%d-Nodes", size.nodes), func(b *testing.B) {
			l := newLab(b)
			l.account()
			l.Interface = quick()
			l.write(newSnapshot(templates.Deployment, size.nodes-1, fresh, tainted))
			b.ResetTimer()
			for b.Loop() {
				size.look(b, l)
			}
		})
	}
}

// look is a look at it, and the picture that is made of it.
func (size large) look(b *testing.B, l lab) {
	runtime.GC()
	stop, peak := watchHeap()
	asked := traffic{lists: map[string]int{}}
	start := time.Now()
	s := l.look(client(cluster.Config, &asked))
	d := Diagnose(s)
	took := time.Since(start)
	stop()
	heap := float64(peak.Load()) / 1e6
	var document bytes.Buffer
	l.must(s.Write(&document))
	b.ReportMetric(float64(asked.all), "requests/op")
	b.ReportMetric(float64(len(asked.lists)), "lists/op")
	b.ReportMetric(heap, "heap-MB")
	b.ReportMetric(float64(document.Len())/1e6, "snapshot-MB")
	if len(d.Nodes) != size.nodes || len(d.NotSeen) > 0 {
		b.Errorf("got %d Nodes, not seen %v", len(d.Nodes), d.NotSeen)
	}
	if size.within > 0 && took > size.within || size.heapMB > 0 && heap > size.heapMB {
		b.Errorf("it took %s and %.0f MB, want no more than %s and %.0f MB (0: any)", took, heap, size.within, size.heapMB)
	}
	for path, times := range asked.lists {
		if times > 1 {
			b.Errorf("%s was listed %d times", path, times)
		}
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
