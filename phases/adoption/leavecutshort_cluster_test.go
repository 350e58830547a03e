package adoption

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// cutter ends a run once so many things have been said to be gone.
type cutter struct {
	io.Writer

	left int
	cut  context.CancelFunc
}

func (c *cutter) Write(p []byte) (int, error) {
	text := string(p)
	if strings.Contains(text, " deleted\n") || strings.Contains(text, " removed\n") {
		if c.left--; c.left == 0 {
			c.cut()
		}
	}
	return c.Writer.Write(p)
}

// A leave --purge that is cut short behind anything it removes is completed by the same command.
func TestCluster_Leave_PurgeCutShort(t *testing.T) {
	m, client := plain(t)
	leave := []workflow.Phase{leavePreflight(), off(manager.RBAC()), off(manager.Addon()), forgetMachine(), removeObjects(), purge()}
	for n := 1; ; n++ {
		r, out := adoption(t, m, workflow.Inputs{Command: "adopt"}, Adoption{Yes: true})
		runAll(t.Context(), t, r, out, Adopt()[1:6])
		machinetest.Put(t, m, machine.KubeadmConfig, "of a day long ago")
		if !cutLeave(t, m, client, leave, n) {
			t.Logf("%d boundaries", n-1)
			return
		}
		if rec, err := workflow.ReadRecord(t.Context(), client); err == nil && rec != nil {
			r, out = adoption(t, m, workflow.Inputs{Command: "leave"}, Adoption{Leave: true, Yes: true, Purge: true})
			runAll(t.Context(), t, r, out, leave)
		}
		expectNothingOfOurs(t, m)
		if t.Failed() {
			t.Fatalf("cut short behind %d\n%s", n, out)
		}
		if there, err := m.Exists(machine.ConfigDir); err != nil || there {
			t.Errorf("cut short behind %d, %s is there: %v, %v", n, machine.ConfigDir, there, err)
		}
	}
}

// cutLeave leaves a purge behind so many things that it has removed, as a process that is killed does. It tells whether
// there were so many.
func cutLeave(t *testing.T, m *machine.Machine, client kubernetes.Interface, list []workflow.Phase, n int) bool {
	t.Helper()
	r, out := phasestest.Run{Inputs: workflow.Inputs{
		Command: "leave", Existing: true, Operation: &Adoption{Leave: true, Yes: true, Purge: true},
	}}.Must(t, m)
	ctx, cut := context.WithCancel(t.Context())
	defer cut()
	c := &cutter{Writer: r.Out, left: n, cut: cut}
	r.Out = c
	err := cutAt(ctx, r, list)
	if c.left > 0 && err != nil {
		t.Fatalf("behind %d: %v\n%s", n, err, out)
	}
	phasestest.Abandon(t, client)
	return c.left <= 0
}

func runAll(ctx context.Context, t *testing.T, r *workflow.Run, out *bytes.Buffer, list []workflow.Phase) {
	t.Helper()
	if err := cutAt(ctx, r, list); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// cutAt runs phases until one fails, and leaves it there.
func cutAt(ctx context.Context, r *workflow.Run, list []workflow.Phase) error {
	for _, p := range list {
		if err := p.Do(ctx, r); err != nil {
			return err
		}
	}
	return nil
}
