package nodes

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestCluster_Status(t *testing.T) {
	l := newLab(t)
	l.register(newNode("a"))
	l.register(newNode("b", tainted, unresolved))
	tests := []struct {
		name  string
		nodes []string
		want  string
	}{
		{"all", nil, "a Ready, b Tainted NoPod"},
		{"some, in the order asked for", []string{"c", "a"}, "c Absent NodeAbsent, a Ready"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			report, err := Observe(t.Context(), l, "", tt.nodes)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range report.Nodes {
				text := s.Node + " " + s.State.String()
				if s.Cause != nil {
					text += " " + s.Cause.Reason
				}
				got = append(got, text)
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The log comes by the way of a kubelet; this one is an HTTP server.
func TestCluster_Status_ReadsTheLog(t *testing.T) {
	var asked string
	port := kubelet(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		fmt.Fprintln(w, "I1121 started\nE1121 error syncing 'w1': provider says no")
	})
	l := newLab(t)
	l.register(newNode("cp1", func(n *corev1.Node) {
		n.Status.Addresses[0].Address = "127.0.0.1"
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	}))
	l.register(newNode("w1", tainted, unresolved))
	l.lead("cp1_1234", 15)
	l.run(newPod())
	report, err := Observe(t.Context(), l, "", []string{"w1"})
	if err != nil {
		t.Fatal(err)
	}
	if c := report.Nodes[0].Cause; c == nil || !strings.Contains(c.Message, "provider says no") {
		t.Errorf("got cause %+v, want the last line on the node", c)
	}
	if want := "/containerLogs/kube-system/cloud-controller-manager-cp1/cloud-controller-manager?limitBytes=393216&tailLines=300"; asked != want {
		t.Errorf("the kubelet was asked for %q, want %q", asked, want)
	}
}

// Nodes that are all Ready are not all there is.
func TestCluster_Observe_NotAllIsWell(t *testing.T) {
	renewed := func(l lab, name string, ago time.Duration) {
		l.Helper()
		lease := newLease("kubelet", time.Now().Add(-ago))
		lease.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease}
		_, err := l.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(l.Context(), lease, metav1.CreateOptions{})
		l.must(err)
		l.Cleanup(func() {
			ctx := context.WithoutCancel(l.Context())
			l.must(l.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, name, metav1.DeleteOptions{}))
		})
	}
	tests := []struct {
		name    string
		prepare func(lab)
		want    string
	}{
		{
			name:    "no node",
			prepare: func(l lab) { l.lead("cp1_1", 600) },
			want:    "NoNodes error",
		},
		{
			name:    "all is well",
			prepare: func(l lab) { l.register(newNode("w1")); l.lead("cp1_1", 600) },
			want:    "",
		},
		{
			name: "a leader that is dead, and no pod",
			prepare: func(l lab) {
				l.register(newNode("w1"))
				l.leadSince(time.Now().Add(-time.Minute))
			},
			want: "LeaderSilent error",
		},
		{
			name: "a leader that is dead, and a pod that runs",
			prepare: func(l lab) {
				l.register(newNode("w1"))
				l.run(newPod())
				l.leadSince(time.Now().Add(-time.Minute))
			},
			want: "NoLeader error",
		},
		{
			name: "a leader that is dead, and a pod that crashes",
			prepare: func(l lab) {
				l.register(newNode("w1"))
				l.run(newPod(crashed))
				l.leadSince(time.Now().Add(-time.Minute))
			},
			want: "CrashLoop error",
		},
		{
			name: "a clock that is 30 s ahead, and a leader that renews",
			prepare: func(l lab) {
				l.register(newNode("w1"))
				l.leadSince(time.Now().Add(-30 * time.Second))
				l.renewWithClock(-30 * time.Second)
			},
			want: "",
		},
		{
			name:    "neither Lease nor pod: perhaps under names of its own",
			prepare: func(l lab) { l.register(newNode("w1")) },
			want:    "NoPod warning",
		},
		{
			name: "a kubelet that has stopped renewing its Lease",
			prepare: func(l lab) {
				l.register(newNode("w1"))
				l.register(newNode("w2"))
				l.lead("cp1_1", 600)
				renewed(l, "w1", 5*time.Second)
				renewed(l, "w2", 60*time.Second)
			},
			want: "w2 KubeletSilent",
		},
		{
			name: "a clock that is 60 s ahead of all kubelets",
			prepare: func(l lab) {
				l.register(newNode("w1"))
				l.register(newNode("w2"))
				l.lead("cp1_1", 600)
				renewed(l, "w1", 65*time.Second)
				renewed(l, "w2", 60*time.Second)
			},
			want: "",
		},
		{
			name: "a kubelet that the controller manager has given up",
			prepare: func(l lab) {
				l.register(newNode("w1", goneSilent))
				l.lead("cp1_1", 600)
			},
			want: "w1 KubeletSilent",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t)
			tt.prepare(l)
			report, err := Observe(t.Context(), l, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range report.Failing(Addressed) {
				got = append(got, s.Node+" "+s.Cause.Reason)
			}
			for _, f := range report.Findings {
				got = append(got, f.Reason+" "+string(f.Severity))
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("got %q, want %q: %+v", got, tt.want, report.Findings)
			}
		})
	}
}

// A kubelet of 1.36 tells its flags (https://kubernetes.io/docs/reference/instrumentation/zpages/). A real API server
// refuses to proxy to a kubelet on loopback, so this one is an HTTP server.
func TestFlags(t *testing.T) {
	const page = `{"kind":"Flagz","apiVersion":"config.k8s.io/v1beta1","flags":{"cloud-provider":%q}}`
	answers := map[string]string{
		"external": fmt.Sprintf(
			page,
			"external",
		),
		"without":   fmt.Sprintf(page, ""),
		"odd":       "<html>",
		"old":       "404 page not found",
		"off":       "",
		"forbidden": "",
	}
	var asked sync.Map
	client := kubernetes.NewForConfigOrDie(serve(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.Path, r.Header.Get("Accept"))
		name := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/"), "/proxy/flagz")
		switch name {
		case "off": // as k8s.io/apimachinery/pkg/util/proxy says it
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintln(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":"error trying to reach service: `+
				`dial tcp 192.0.2.9:10250: connect: no route to host"}`)
		case "forbidden":
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprintln(w, answers[name])
	})(t))
	var statuses []Status
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		statuses = append(statuses, Status{Node: name, State: Ready, Version: "v1.36.3"})
	}
	told := AskKubelets(t.Context(), client, statuses, nil)
	if want := map[string]string{"off": "dial tcp 192.0.2.9:10250: connect: no route to host"}; !maps.Equal(told.Unreached, want) {
		t.Errorf("unreached %v, want %v", told.Unreached, want)
	}
	judgeFlags(statuses, told.Flags)
	for _, s := range statuses {
		if got := s.Cause != nil && s.Cause.Reason == "KubeletNotExternal"; got != (s.Node == "without") {
			t.Errorf("%s: got cause %+v", s.Node, s.Cause)
		}
	}
	if accept, _ := asked.Load(
		"/api/v1/nodes/without/proxy/flagz",
	); accept != "application/json;v=v1beta1;g=config.k8s.io;as=Flagz" {
		t.Errorf("asked for %v", accept)
	}
}

// kubelet is an HTTP server that the API server takes for one.
func kubelet(t *testing.T, handler http.HandlerFunc) (port int32) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return int32(server.Listener.Addr().(*net.TCPAddr).Port)
}

// leadSince is lead, with a renewal in the past.
func (l lab) leadSince(renewed time.Time) {
	l.Helper()
	_, err := l.CoordinationV1().Leases(
		v1alpha1.Namespace,
	).Create(
		l.Context(),
		newLease("cp1_1", renewed),
		metav1.CreateOptions{},
	)
	l.must(err)
}

// renewWithClock renews the Lease every second, with a clock that differs by so much, until the test ends.
func (l lab) renewWithClock(differs time.Duration) {
	ctx, stop := context.WithCancel(l.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			patch := fmt.Sprintf(
				`{"spec":{"renewTime":%q}}`,
				time.Now().Add(differs).UTC().Format("2006-01-02T15:04:05.000000Z"),
			)
			_, err := l.CoordinationV1().Leases(
				v1alpha1.Namespace,
			).Patch(
				ctx,
				v1alpha1.LeaseName,
				types.MergePatchType,
				[]byte(patch),
				metav1.PatchOptions{},
			)
			if err != nil && ctx.Err() == nil {
				l.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	l.Cleanup(func() { stop(); done.Wait() })
}
