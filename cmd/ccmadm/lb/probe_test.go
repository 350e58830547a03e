package lb

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

const (
	macW1, macCP2, macOther = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:99"
)

// Who answers is named by the report of its agent, or by its own address where it has no agent.
func TestNamed(t *testing.T) {
	cloud := func() *network.Machines {
		return &network.Machines{
			Nodes:      map[string][]string{macW1: {"w1"}},
			Unreported: map[string][]string{"cp2": {"192.0.2.2", "not an address"}},
		}
	}
	var asked []string
	var fails error
	ask := func(_ context.Context, addr netip.Addr) ([]machine.Neighbour, error) {
		asked = append(asked, addr.String())
		return []machine.Neighbour{{MAC: macCP2}}, fails
	}
	tests := []struct {
		name      string
		machines  *network.Machines
		mac, want string
		asked     []string
	}{
		{"an agent reports it", cloud(), macW1, "w1", nil},
		{"a control plane without an agent", cloud(), macCP2, "cp2", []string{"192.0.2.2"}},
		{"a machine that is no Node", cloud(), macOther, "", []string{"192.0.2.2"}},
		{"no cluster", nil, macW1, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked = nil
			got, err := named(t.Context(), []machine.Neighbour{{MAC: tt.mac}}, tt.machines, ask)
			if err != nil || len(got) != 1 || strings.Join(got[0].Nodes, " ") != tt.want {
				t.Errorf("got %+v, %v, want %q", got, err, tt.want)
			}
			if diff := cmp.Diff(tt.asked, asked); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
	fails = errors.New("no")
	if got, err := named(t.Context(), []machine.Neighbour{{MAC: macOther}}, cloud(), ask); err == nil {
		t.Errorf("a question that failed gives %+v", got)
	}
}

func TestPrintAnswers(t *testing.T) {
	one := machine.Neighbour{MAC: macW1, After: 120 * time.Microsecond}
	list := []answer{{Neighbour: one, Nodes: []string{"w1", "w2"}}}
	for format, want := range map[string]string{
		"text": "MAC                INTERFACE  AFTER  NODE\n" + macW1 + "  eth0       120µs  w1, w2\n",
		"yaml": "after: 120000\nmac: \"" + macW1 + "\"\nnodes:\n- w1\n- w2\n",
		"json": `{"mac":"` + macW1 + `","after":120000,"nodes":["w1","w2"]}` + "\n",
	} {
		var out bytes.Buffer
		if err := printAnswers(workflow.Streams{Out: &out}, output.Named(format), "eth0", list); err != nil || out.String() != want {
			t.Errorf("%s: got %q, %v, want %q", format, out.String(), err, want)
		}
	}
}

// The machine that has the address hears no answer, which says nothing about others.
func TestJudgeNeighbours_Here(t *testing.T) {
	here, err := interfaceWith(netip.MustParseAddr("127.0.0.1"))
	if err != nil || here != "lo" {
		t.Errorf("127.0.0.1 is on %q, %v, want lo", here, err)
	}
	addr := netip.MustParseAddr("192.0.2.10")
	if err := judgeNeighbours(addr, nil, "lo"); err == nil || !strings.Contains(err.Error(), "this one has it on lo") {
		t.Errorf("got %v", err)
	}
	const nobody = "no machine answers for 192.0.2.10"
	if err := judgeNeighbours(addr, nil, ""); err == nil || !strings.Contains(err.Error(), nobody) {
		t.Errorf("got %v", err)
	}
}
