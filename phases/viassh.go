package phases

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// bySSH asks for no password: what cannot be done without one is done by hand.
type bySSH struct{ d *Data }

func (b bySSH) patience() time.Duration { return b.d.Adoption.NodeTimeout + time.Minute } // once it has come back

func (b bySSH) run(ctx context.Context, n *plannedNode, args ...string) error {
	line := b.line(n, args...)
	var out bytes.Buffer
	err := b.d.Machine.Runner.Run(ctx, machine.Command{Name: "ssh", Args: line, Out: &out, Err: &out, Changes: true})
	tellOfNode(b.d, n, out.String())
	if err != nil {
		return fmt.Errorf("run ssh %s: %w", strings.Join(line, " "), err)
	}
	return nil
}

func (b bySSH) line(n *plannedNode, args ...string) []string {
	address, _, _ := strings.Cut(n.ip, ",")
	if user := b.d.Adoption.SSHUser; user != "" {
		address = user + "@" + address
	}
	return append([]string{
		"-o", "BatchMode=yes", "-o", "ConnectTimeout=10",
		"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", address, "--", "ccmadm", "node",
	}, args...)
}

// show asks a machine for its kubelet's flags, which changes nothing there.
func (b bySSH) show(ctx context.Context, n *plannedNode) (*NodeReport, error) {
	out, err := b.d.Machine.Output(ctx, "ssh", b.line(n, "show", "--output=json")...)
	if err != nil {
		return nil, err
	}
	var report NodeReport
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, fmt.Errorf("read what ccmadm node show says on %s: %w", n.name, err)
	}
	wanted, err := whose(b.d, n)
	if err != nil {
		return nil, err
	}
	if err := wanted.check(report.Whose); err != nil {
		return nil, fmt.Errorf("ask who answers at %s: %w", n.ip, err)
	}
	return &report, nil
}

// reachBySSH asks all machines that a run over SSH is to change, at the same time: who cannot be reached is known
// before anything is changed. Nil: it was not asked, or what stands against it is noted.
func reachBySSH(ctx context.Context, d *Data, plan []*plannedNode) []*NodeReport {
	reports := make([]*NodeReport, len(plan))
	if d.Adoption.Via != ViaSSH {
		return reports
	}
	type answer struct {
		report *NodeReport
		err    error
	}
	byName, names := map[string]*plannedNode{}, make([]string, len(plan))
	for i, n := range plan {
		byName[n.name], names[i] = n, n.name
	}
	answers := nodes.AskEach(ctx, names, func(ctx context.Context, name string) (a answer) {
		n := byName[name]
		if n.here || n.skipped || !n.ready {
			return a
		}
		if other := n.sharesAddress(plan); other != "" {
			a.err = fmt.Errorf("its address %s is also that of Node/%s: nobody knows which of them SSH reaches", n.ip, other)
			return a
		}
		a.report, a.err = bySSH{d}.show(ctx, n)
		return a
	})
	for i, a := range answers {
		reports[i] = a.report
		if a.err != nil {
			plan[i].problems = append(plan[i].problems, finding.Clean(a.err.Error()))
		}
	}
	return reports
}
