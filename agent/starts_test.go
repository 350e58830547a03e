package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// keeping is an API server that has a report with lists of voters, and keeps what it is sent; pruning, without the lists.
type keeping struct {
	agent   v1alpha1.NodeAgent
	pruning bool
}

// RoundTrip answers as an API server.
func (k *keeping) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		if err := json.NewDecoder(request.Body).Decode(&k.agent); err != nil {
			return nil, err
		}
		if k.pruning {
			k.agent.Status.Voters = nil
		}
	}
	text, err := json.Marshal(k.agent)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(text))), Request: request,
	}, err
}

// What an agent reported before it started again stays until the announcer reports, and that learns what the API server has of it.
func TestReporter_Voters(t *testing.T) {
	before, after := []v1alpha1.VoterList{{ID: "1"}}, []v1alpha1.VoterList{{ID: "1"}, {ID: "2"}}
	server := &keeping{agent: v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}}
	server.agent.Status.Voters = before
	client, err := objects.New(&rest.Config{Host: "http://api", Transport: server})
	if err != nil {
		t.Fatal(err)
	}
	var sent, kept []v1alpha1.VoterList
	r := &reporter{node: "w1", agents: client.NodeAgents, nodes: still{}}
	r.written = append(r.written, func(s, k *v1alpha1.NodeAgentStatus, _ error) { sent, kept = s.Voters, k.Voters })
	write := func(wantSent, wantKept []v1alpha1.VoterList) {
		t.Helper()
		if err := r.write(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]v1alpha1.VoterList{wantSent, wantKept}, [][]v1alpha1.VoterList{sent, kept}); diff != "" {
			t.Errorf("sent and kept (-want +got):\n%s", diff)
		}
	}
	write(before, before)
	r.sources = append(r.sources, func(s *v1alpha1.NodeAgentStatus) { s.Voters = after })
	write(after, after)
	server.pruning = true
	write(after, nil)
}

// The reports of all are asked for until they are there, and each view has what the first one with members has.
func TestStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		s := starts{list: func(_ context.Context, o metav1.ListOptions) (*v1alpha1.NodeAgentList, error) {
			if asked++; asked < 3 {
				return nil, errors.New("away")
			}
			if o.ResourceVersion != "" {
				t.Errorf("asked for what a cache has: %+v", o)
			}
			agent := v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
			agent.Status.Voters = []v1alpha1.VoterList{{ID: "28fcdf527aaec9fd", Nodes: []string{"w1", "w2"}}}
			return &v1alpha1.NodeAgentList{Items: []v1alpha1.NodeAgent{agent}}, nil
		}}
		if !s.read(t.Context()) || asked != 3 {
			t.Fatalf("asked %d times", asked)
		}
		for i, members := range [][]string{nil, {"w1"}, {"w1", "w3"}} {
			v := &announce.View{Node: "w1", Members: members}
			s.fill(v)
			if want := min(i, 1); len(v.Bound) != want {
				t.Errorf("view %d is bound by %v", i, v.Bound)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		asked = -100
		if s.read(ended) {
			t.Error("it was told to end, and has read")
		}
	})
}
