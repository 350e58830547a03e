package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/agents"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// sentBody counts the bytes of an answer.
type sentBody struct {
	io.ReadCloser
	bytes *atomic.Int64
}

// Read counts.
func (c sentBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// BenchmarkReports measures what an API server sends to real reporters and caches of agents where nothing changes, and when each agent
// announces one more address, without a manager that watches leases and with one. Each agent watches all reports: without one it grows with the
// square of the Nodes.
func BenchmarkReports(b *testing.B) {
	const hollow, settle, window = 40, 30 * time.Second, time.Minute
	applyDefinitions(b)
	for _, announcements := range []int{4, 1000} {
		for _, leases := range []bool{false, true} {
			b.Run(fmt.Sprintf("agents=%d/announcements=%d/leases=%t", hollow, announcements, leases), func(b *testing.B) {
				var sent atomic.Int64
				var more atomic.Int32
				var reporters []*reporter
				config := rest.CopyConfig(plane.Config)
				config.QPS = -1
				config.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return roundTripper(func(request *http.Request) (*http.Response, error) {
						response, err := next.RoundTrip(request)
						if err == nil {
							response.Body = sentBody{response.Body, &sent}
						}
						return response, err
					})
				})
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				for i := range hollow {
					count := func() int { return announcements + int(more.Load()) }
					reporters = append(reporters, runHollow(ctx, b, config, fmt.Sprintf("hollow-%d", i), count))
				}
				if leases {
					ours, err := objects.New(config)
					must(b, err)
					reader, err := agents.New(kubernetes.NewForConfigOrDie(config), ours, "benchmark")
					must(b, err)
					go reader.Run(ctx)
				}
				time.Sleep(settle)
				before := sent.Load()
				time.Sleep(window)
				b.ReportMetric(float64(sent.Load()-before)/window.Seconds(), "B/s")
				more.Store(1)
				before = sent.Load()
				for _, r := range reporters {
					r.announced()
				}
				time.Sleep(settle / 3) // without a renewal of all, which is what is measured before
				b.ReportMetric(float64(sent.Load()-before), "B/change")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// runHollow runs what an agent has of the API server, and its reports, without its network.
func runHollow(ctx context.Context, b *testing.B, config *rest.Config, name string, announcements func() int) *reporter {
	b.Helper()
	_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		b.Fatal(err)
	}
	c, err := newCaches(config)
	must(b, err)
	r, err := newReporter(config, name, "benchmark", c)
	must(b, err)
	r.sources = append(r.sources, func(s *v1alpha1.NodeAgentStatus) {
		r.announces(s)
		s.Interfaces = []v1alpha1.AgentInterface{{Name: "eth0", MAC: "52:54:00:00:00:11", Addresses: []string{"192.0.2.11/24", "2001:db8::11/64"}}}
	})
	r.announcing = append(r.announcing, func(s *v1alpha1.NodeAgentStatus) {
		for i := range announcements() {
			s.Announcements = append(s.Announcements, v1alpha1.Announcement{Address: fmt.Sprintf("198.51.%d.%d", i/256, i%256), Level: v1alpha1.LevelBGP})
		}
	})
	go func() { _ = c.run(ctx, ctx, func() {}) }()
	go r.run(ctx)
	go r.apart.run(ctx)
	return r
}
