package fleet

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestOnHost(t *testing.T) {
	for args, want := range map[string]string{
		"node show":                      "node show --root=/host",
		"upgrade node --driven -- --v=5": "upgrade node --driven --root=/host -- --v=5",
	} {
		if diff := cmp.Diff(want, strings.Join(onHost(strings.Fields(args)), " ")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// hanging is a machine that takes a question, and never answers.
type hanging struct{ Runner }

func (hanging) Show(ctx context.Context, _ *Node, _ ...string) (*kubelet.NodeReport, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestOneAtATime_NoAnswer(t *testing.T) {
	way := OneAtATime{hanging{}, fake.NewClientset(), 50 * time.Millisecond}
	_, err := way.Show(t.Context(), &Node{Name: "w1"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// hungClient is an SSH client that does not end.
type hungClient struct{}

func (hungClient) Run(ctx context.Context, _ machine.Command) error {
	<-ctx.Done()
	return errors.New("signal: terminated")
}

// A command over SSH has an end, since nobody else has the Lease as long.
func TestBySSH_NoEnd(t *testing.T) {
	m, _ := machinetest.New(t)
	m.Runner = hungClient{}
	env := kubelet.NewNode(m, kubelet.NodeOptions{}, workflow.Streams{Out: io.Discard, Err: io.Discard}, "test")
	err := SSH{Env: env, Takes: 50 * time.Millisecond}.Run(t.Context(), &Node{Name: "w1", IP: "198.18.0.21"}, Command{"x"})
	phasestest.WantError(t, workflow.AsError(err), "signal: terminated: context deadline exceeded", finding.ExitError)
	const hint = "the step may still be running there"
	if known := new(finding.Error); !errors.As(err, &known) || !strings.Contains(known.Hint, hint) {
		t.Errorf("it says no more than %v", err)
	}
}
