package evaluation

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Of many agents few have a vote: those count, where an address has no owner.
func TestReports_Muted(t *testing.T) {
	reports := func(live int, voters []string, silent ...string) *Reports {
		r := &Reports{silent: silent}
		for i := range live {
			agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("live%d", i)}}
			if len(voters) > 0 {
				agent.Status.Voters = []v1alpha1.VoterList{v1alpha1.NewVoterList(voters)}
			}
			r.Agents = append(r.Agents, agent)
		}
		return r
	}
	seven := []string{"live0", "live1", "live2", "a", "b", "c", "d"}
	for _, tt := range []struct {
		name    string
		reports *Reports
		level   v1alpha1.Level
		want    string
		most    bool
	}{
		{"BGP", reports(2, nil, "a"), v1alpha1.LevelBGP, "1 of 3 node agents do not report: a", false},
		{"each has a vote", reports(2, nil, "a", "b"), v1alpha1.LevelL2, "2 of 4 voters do not report: a, b", true},
		{"of ten, one has a vote", reports(8, seven, "d", "e"), v1alpha1.LevelL2, "1 of 7 voters do not report: d", false},
		{"of 24, four have a vote", reports(20, seven, "a", "b", "c", "d"), v1alpha1.LevelL2, "4 of 7 voters do not report: a, b, c, ...", true},
		{"an older list binds, which those have left that do not report", &Reports{silent: []string{"a", "b", "c", "d"}, Agents: []*v1alpha1.NodeAgent{
			voting("live0", seven, []string{"live0", "live1", "live2"}), voting("live1", seven, []string{"live0", "live1", "live2"}),
			voting("live2", seven), voting("live3"), voting("live4"),
		}}, v1alpha1.LevelL2, "4 of 7 voters do not report: a, b, c, ...", true},
		{"none has a vote", reports(8, seven, "e"), v1alpha1.LevelL2, "1 of 9 node agents do not report, none of them has a vote", false},
		{"who has one is not known", reports(8, nil, "e"), v1alpha1.LevelL2, "1 of 9 node agents do not report: e", false},
	} {
		if got, most := tt.reports.muted(tt.level); got != tt.want || most != tt.most {
			t.Errorf("%s: %q, half or more: %t; want %q, %t", tt.name, got, most, tt.want, tt.most)
		}
	}
}

// voting is an agent that reports lists of voters.
func voting(name string, lists ...[]string) *v1alpha1.NodeAgent {
	agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, list := range lists {
		agent.Status.Voters = append(agent.Status.Voters, v1alpha1.NewVoterList(list))
	}
	return agent
}
