package announce

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// voting is a cluster of Nodes with an agent, each of which is a second younger than the one before.
type voting struct {
	View
	start time.Time
}

func newVoting() *voting {
	return &voting{View{Nodes: map[string]*corev1.Node{}, Agents: map[string]*v1alpha1.NodeAgent{}}, time.Now().Truncate(time.Second)}
}

func (v *voting) add(name, zone string, controlPlane bool) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if zone != "" {
		node.Labels[corev1.LabelTopologyZone] = zone
	}
	if controlPlane {
		node.Labels[v1alpha1.ControlPlaneLabel] = ""
	}
	born := metav1.NewTime(v.start.Add(time.Duration(len(v.Nodes)) * time.Second))
	v.Nodes[name], v.Agents[name] = node, &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: born}}
}

// decide is who has a vote now, and who would have one if nobody were silent.
func (v *voting) decide(silent ...string) (members, all []string) {
	view := View{Nodes: v.Nodes, Agents: map[string]*v1alpha1.NodeAgent{}}
	for name, agent := range v.Agents {
		if agent = agent.DeepCopy(); slices.Contains(silent, name) {
			agent.Annotations = map[string]string{v1alpha1.AgentSilentAnnotation: agent.Status.Renewed()}
		}
		view.Agents[name] = agent
	}
	view.SetMembers(v.start, true, Sightings{})
	return view.Members, view.All
}

func wantVotes(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("votes (-want +got):\n%s", diff)
	}
}

// Seven Nodes have a vote: the control planes, and those whose agents are oldest. One that is silent is replaced, and has its vote again
// when it is back. A Node that joins changes nothing.
func TestView_Votes(t *testing.T) {
	v := newVoting()
	for i := range 5 {
		v.add(fmt.Sprintf("w%d", 9-i), "", false) // w9 is the oldest
	}
	members, _ := v.decide()
	wantVotes(t, members, "w5", "w6", "w7", "w8", "w9")
	for i := range 3 {
		v.add(fmt.Sprintf("cp%d", i+1), "", true)
	}
	for i := range 100 {
		v.add(fmt.Sprintf("v%03d", i), "", false)
	}
	seven := []string{"cp1", "cp2", "cp3", "w6", "w7", "w8", "w9"}
	members, all := v.decide()
	wantVotes(t, members, seven...)
	wantVotes(t, all, seven...)
	members, all = v.decide("w8", "cp1", "v050")
	wantVotes(t, members, "cp2", "cp3", "v000", "w5", "w6", "w7", "w9")
	wantVotes(t, all, seven...)
	for i := range 10 {
		v.add(fmt.Sprintf("cp%d", i+4), "", true)
	}
	if members, _ = v.decide(); len(members) != v1alpha1.MaxVotes || slices.ContainsFunc(members, func(name string) bool { return name[0] != 'c' }) {
		t.Errorf("of 13 control planes %v have a vote", members)
	}
}

// Votes are spread over zones, so that a zone that is lost takes no majority with it.
func TestView_Votes_Zones(t *testing.T) {
	v := newVoting()
	for i := range 3 {
		v.add(fmt.Sprintf("cp%d", i+1), "a", true)
	}
	for i := range 30 {
		v.add(fmt.Sprintf("w%02d", i), string("aaaaaaaaaabbbbbbbbbbcccccccccc"[i]), false)
	}
	members, _ := v.decide()
	wantVotes(t, members, "cp1", "cp2", "cp3", "w10", "w11", "w20", "w21")
}

// A Node without a vote reports no list. That it does not report at all binds nobody who starts: neither the youngest, nor four of the oldest,
// which have failed since, before older ones were deleted; nor four where only seven are left.
func TestView_SetBound_WithoutVote(t *testing.T) {
	for _, tt := range []struct {
		nodes  int
		silent []string
	}{
		{30, []string{"w29"}},
		{30, []string{"w00", "w01", "w02", "w03"}},
		{7, []string{"w00", "w01", "w02", "w03"}},
	} {
		v := newVoting()
		for i := range tt.nodes {
			v.add(fmt.Sprintf("w%02d", i), "", false)
		}
		for _, name := range tt.silent {
			v.Agents[name].Annotations = map[string]string{v1alpha1.AgentSilentAnnotation: v.Agents[name].Status.Renewed()}
		}
		voters, _ := v.decide()
		var agents []v1alpha1.NodeAgent
		for name, agent := range v.Agents {
			agent.Status.AnnouncementsApart = true
			if slices.Contains(voters, name) {
				agent.Status.Voters = quorum.Report(name, [][]string{voters})
			}
			agents = append(agents, *agent)
		}
		v.Node = "w05"
		v.SetMembers(v.start, true, Sightings{})
		v.SetBound(agents)
		if diff := cmp.Diff([][]string{voters}, v.Bound); diff != "" {
			t.Errorf("of %d Nodes %v are silent: bound (-want +got):\n%s", tt.nodes, tt.silent, diff)
		}
	}
}
