package nodes

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
			list, err := Observe(t.Context(), l, "", tt.nodes)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range list {
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
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		fmt.Fprintln(w, "I1121 started\nE1121 error syncing 'w1': provider says no")
	}))
	defer kubelet.Close()
	_, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t)
	l.register(newNode("cp1", func(n *corev1.Node) {
		n.Status.Addresses[0].Address = "127.0.0.1"
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	}))
	l.register(newNode("w1", tainted, unresolved))
	l.lead("cp1_1234", 15)
	l.run(newPod())
	list, err := Observe(t.Context(), l, "", []string{"w1"})
	if err != nil {
		t.Fatal(err)
	}
	if c := list[0].Cause; c == nil || !strings.Contains(c.Message, "provider says no") {
		t.Errorf("got cause %+v, want the last line on the node", c)
	}
	if want := "/containerLogs/kube-system/cloud-controller-manager-cp1/cloud-controller-manager?tailLines=200"; asked != want {
		t.Errorf("the kubelet was asked for %q, want %q", asked, want)
	}
}
