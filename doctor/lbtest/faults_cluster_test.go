package lbtest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
)

// TestCluster_Faults: each fault of a load balancer fails the checks that ask for what is missing, with the reason.
func TestCluster_Faults(t *testing.T) {
	t.Parallel() // most of it is waiting for what does not happen
	for i, test := range []struct {
		name    string
		fault   func(*world)
		checks  []string
		fail    []string
		wantWhy string
	}{
		{
			"no address", func(w *world) { w.noAddress = true },
			[]string{"tcp", "tcp-local"},
			[]string{"tcp", "tcp-local"},
			"has no address after",
		},
		{
			"no answer", func(w *world) { w.deaf = true },
			[]string{"tcp"},
			[]string{"tcp"},
			"does not answer within",
		},
		{
			"no answer by UDP", func(w *world) { w.deafUDP = true },
			[]string{"tcp", "udp"},
			[]string{"udp"},
			"does not answer within",
		},
		{
			"source translated", func(w *world) { w.translates = true },
			[]string{"tcp", "tcp-local", "udp-local"},
			[]string{"tcp-local", "udp-local"},
			"an address of Node",
		},
		{
			"answers without endpoints", func(w *world) { w.answersAlways = true },
			[]string{"no-endpoints"},
			[]string{"no-endpoints"},
			"still answers without an endpoint",
		},
		{
			"former port", func(w *world) { w.keepsPort = true },
			[]string{"change-port"},
			[]string{"change-port"},
			"still answers at the former port",
		},
		{
			"address not given back", func(w *world) { w.keepsAddress = true },
			[]string{"requested-loadbalancerip"},
			[]string{"requested-loadbalancerip"},
			"was given back and asked for",
		},
		{
			"address given twice", func(w *world) { w.givesTwice = true },
			[]string{"requested-annotation"},
			[]string{"requested-annotation"},
			"both Services have",
		},
		{
			"requests ignored", func(w *world) { w.ignoresRequests = true },
			[]string{"requested-loadbalancerip", "shared-address"},
			[]string{"requested-loadbalancerip"},
			"was given back and asked for",
		},
		{
			"no affinity", func(w *world) { w.ignoresAffinity = true },
			[]string{"session-affinity"},
			[]string{"session-affinity"},
			"endpoints answer",
		},
		{
			"one endpoint", func(w *world) { w.sticks = true },
			[]string{"tcp", "session-affinity"},
			[]string{"tcp", "session-affinity"},
			"endpoint",
		},
		{
			"lost requests", func(w *world) { w.lossy = 60 },
			[]string{"tcp"},
			[]string{"tcp"},
			"still loses requests",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			controllers(t)
			w := newWorld(t, 40+i, test.fault)
			o := w.options(test.checks...)
			o.Wait = 4 * time.Second
			report, said, err := w.start(t, o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.fail, report.named(Fail)); diff != "" {
				t.Errorf("failed checks (-want +got):\n%s\n%s", diff, said)
			}
			for _, c := range report.Checks {
				if c.Result == Fail && !strings.Contains(c.Reason, test.wantWhy) {
					t.Errorf("%s: the reason is %q, want %q in it", c.Name, c.Reason, test.wantWhy)
				}
				if lost := test.name == "lost requests"; (c.Lost > 0) != lost {
					t.Errorf("%s: %d requests were lost", c.Name, c.Lost)
				}
			}
			var found *finding.Error
			if err := report.Judge(); !errors.As(err, &found) || found.Code != finding.ExitFound {
				t.Errorf("the run ends with %v", err)
			}
			w.mustBeGone(t)
		})
	}
}

// overloaded answers each third request itself, as an API server does that has too much to do; or each request for one Service.
type overloaded struct {
	next     http.RoundTripper
	count    atomic.Int64
	services bool
}

func (o *overloaded) RoundTrip(r *http.Request) (*http.Response, error) {
	n := o.count.Add(1)
	busy := n%3 == 0
	if o.services {
		busy = r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/services/")
	}
	if !busy {
		return o.next.RoundTrip(r)
	}
	status := []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}[n%2]
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q}`, status,
		map[int]string{429: "TooManyRequests", 503: "ServiceUnavailable"}[status])
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: readCloser{strings.NewReader(body)}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)),
	}, nil
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

func throughOverload(services bool) *rest.Config {
	config := rest.CopyConfig(plane.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &overloaded{next: next, services: services} })
	return config
}

// TestCluster_Overloaded: 429 and 503 of the API server are repeated, and said, and are no failure of a load balancer.
func TestCluster_Overloaded(t *testing.T) {
	t.Parallel()
	controllers(t)
	w := newWorld(t, 3)
	o := w.options("tcp", "no-endpoints", "requested-annotation")
	o.Cluster = w.own(throughOverload(false))
	report, said, err := w.start(t, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if n := report.Count(Pass); n != 3 {
		t.Errorf("%d checks passed: %v\n%s", n, verdicts(report), said)
	}
	if report.Retries == 0 || !strings.Contains(said, "sending the request again") {
		t.Errorf("%d retries\n%s", report.Retries, said)
	}
	w.mustBeGone(t)
}

// TestCluster_Unanswered: an API server that does not answer any more ends a check as one that could not be done.
func TestCluster_Unanswered(t *testing.T) {
	t.Parallel()
	controllers(t)
	w := newWorld(t, 4)
	o := w.options("tcp")
	o.Cluster = w.own(throughOverload(true))
	s, err := newSuite(o)
	if err != nil {
		t.Fatal(err)
	}
	s.clientPort = w.port
	s.api.patience = 2 * time.Second
	report, err := s.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := verdicts(report); got["tcp"] != Error {
		t.Errorf("got %v: %s", got, report.Checks[0].Reason)
	}
	var found *finding.Error
	if err := report.Judge(); !errors.As(err, &found) || found.Code != finding.ExitError {
		t.Errorf("the run ends with %v", err)
	}
	w.mustBeGone(t)
}
