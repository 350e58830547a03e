package l2

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// keeper is an Announcer that does not run, with what it has logged and how often it has asked for a report.
type keeper struct {
	*Announcer
	logged  []string
	changed int
}

func newKeeper() *keeper {
	k := &keeper{}
	k.Announcer = New(Options{
		Node: "a", KeepVoters: true, Changed: func() { k.changed++ },
		Log: funcr.New(func(_, text string) { k.logged = append(k.logged, text) }, funcr.Options{}),
	})
	return k
}

func (k *keeper) sees(members ...string) {
	k.Set(&announce.View{Node: "a", Members: members, All: members, Bound: [][]string{{"a", "x"}}})
}

func (k *keeper) report() *v1alpha1.NodeAgentStatus {
	var status v1alpha1.NodeAgentStatus
	k.Report(&status)
	return &status
}

func (k *keeper) acts(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, names := range k.quorum.Lists() {
		got = append(got, strings.Join(names, ""))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lists that it acts on (-want +got):\n%s", diff)
	}
}

// A new list is acted on once the API server has it, however late; what bound before binds from the start.
func TestL2_KeepsVotersBeforeItActs(t *testing.T) {
	k := newKeeper()
	before := v1alpha1.NodeAgentStatus{Voters: quorum.Report("a", [][]string{{"a", "y"}})}
	if k.Report(&before); len(before.Voters) != 1 {
		t.Fatal("it has not begun, and takes away what the API server has")
	}
	k.Written(&before, &before, nil)
	k.sees("a", "b")
	k.acts(t, "ax")
	first := k.report()
	if k.changed == 0 || len(first.Voters) != 2 || first.Voters[1].ID != v1alpha1.NewVoterList([]string{"a", "b"}).ID {
		t.Fatalf("it has asked for %d reports, and reports %v", k.changed, first.Voters)
	}
	k.sees("a", "b", "c")
	k.Written(first, first, nil) // it has been on its way
	k.acts(t, "ax")
	second := k.report()
	k.Written(second, second, nil)
	k.acts(t, "ax", "abc")
	k.sees("a", "b")
	k.acts(t, "ax", "abc")
	k.sees("a", "b", "c")
	k.acts(t, "ax", "abc")
	if got := k.report().Voters; len(got) != 2 {
		t.Errorf("it reports %v, and acts on two lists", got)
	}
	if len(k.logged) > 0 {
		t.Errorf("logged: %q", k.logged)
	}
}

// An API server that does not keep the lists keeps no agent from its work, and is named once.
func TestL2_VotersAreNotKept(t *testing.T) {
	for _, refused := range []error{nil, errors.New("forbidden")} {
		k := newKeeper()
		k.sees("a", "b")
		k.Written(k.report(), &v1alpha1.NodeAgentStatus{}, refused)
		k.acts(t, "ax", "ab")
		k.sees("a", "b", "c")
		k.acts(t, "ax", "ab", "abc")
		k.Written(k.report(), &v1alpha1.NodeAgentStatus{}, refused)
		if len(k.logged) != 1 || !strings.Contains(k.logged[0], "Lists of voters are not saved") {
			t.Errorf("refused %v: logged %q", refused, k.logged)
		}
		k.Written(k.report(), k.report(), nil) // the CustomResourceDefinition is of this release now
		k.sees("a", "b", "d")
		k.acts(t, "ax", "ab", "abc")
	}
}

// The control plane's address keeps its members in a file, and reports nothing.
func TestL2_KeepsNoVoters(t *testing.T) {
	k := newKeeper()
	k.KeepVoters = false
	k.sees("a", "b")
	k.acts(t, "ax", "ab")
	if got := k.report().Voters; got != nil {
		t.Errorf("it reports %v", got)
	}
}

// An agent without a vote acts on a list at once and reports none. One that gets a vote reports the list first; one that loses its vote
// says that it has left the lists in which it had one.
func TestL2_KeepsNoVotersWithoutAVote(t *testing.T) {
	k := newKeeper()
	sees := func(members ...string) { k.Set(&announce.View{Node: "a", Members: members, All: members}) }
	sees("b", "c")
	k.acts(t, "bc")
	sees("b", "d")
	k.acts(t, "bc", "bd")
	if got := k.report().Voters; got != nil || k.changed > 0 {
		t.Errorf("it reports %v, and has asked for %d reports", got, k.changed)
	}
	sees("a", "b", "d")
	k.acts(t, "bc", "bd")
	written := k.report()
	k.Written(written, written, nil)
	k.acts(t, "bc", "bd", "abd")
	if len(written.Voters) != 3 {
		t.Errorf("it reports %v", written.Voters)
	}
	former := v1alpha1.NodeAgentStatus{Voters: written.Voters}
	k = newKeeper()
	sees("b", "d")
	k.Report(&former)
	want := []v1alpha1.VoterList{{ID: v1alpha1.NewVoterList([]string{"b", "d"}).ID}}
	if diff := cmp.Diff(want, former.Voters); diff != "" {
		t.Errorf("it has lost its vote (-want +got):\n%s", diff)
	}
}
