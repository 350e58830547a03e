package fleet

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// ConfigData begins the flag of a driven `ccmadm upgrade node` that has kubeadm's configuration.
const ConfigData = "--config-data="

// shownArgs hides what is long, and in a file of the caller's.
func shownArgs(args []string) []string {
	shown := slices.Clone(args)
	for i, arg := range shown {
		if strings.HasPrefix(arg, ConfigData) {
			shown[i] = ConfigData + "..."
		}
	}
	return shown
}

// SSH asks for no password: what cannot be done without one is done by hand.
type SSH struct {
	Env   *workflow.Env
	User  string
	Takes time.Duration
}

var _ Inspector = SSH{}

// sshAnswer is how long a machine may take to say over SSH what it has.
const sshAnswer = time.Minute

// Patience is the time that a step may take.
func (b SSH) Patience() time.Duration { return b.Takes }

// Run does a step by the OpenSSH client.
func (b SSH) Run(ctx context.Context, n *Node, t Task) error { return b.Feed(ctx, n, t, nil) }

// Feed is Run with a standard input.
func (b SSH) Feed(ctx context.Context, n *Node, t Task, in io.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, b.Takes)
	defer cancel()
	line := b.line(n, t.command()...)
	out := &nodeLines{env: b.Env, node: n.Name}
	err := b.Env.Machine.Runner.Run(ctx, machine.Command{Name: "ssh", Args: line, In: in, Out: out, Err: out, Changes: true})
	out.end()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("run ssh %s: %w", strings.Join(shownArgs(line), " "), err)
	if ctx.Err() != nil { // what runs there outlives the client
		return finding.Errorf("%w: %w", err, ctx.Err()).
			WithHint("the step may still be running there, and finishes by itself; run the same command again: it waits for the step")
	}
	return elsewhere(exitStatus(err), err)
}

func (b SSH) line(n *Node, args ...string) []string {
	address, _, _ := strings.Cut(n.IP, ",")
	if b.User != "" {
		address = b.User + "@" + address
	}
	line := []string{
		"-o", "BatchMode=yes", "-o", "ConnectTimeout=10",
		"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", address, "--", "ccmadm",
	}
	for _, arg := range args { // ssh joins them with spaces, for the shell of the other machine
		line = append(line, machine.ShellQuote(arg))
	}
	return line
}

// Show asks a machine for its programs and its kubelet's flags.
func (b SSH) Show(ctx context.Context, n *Node, more ...string) (*kubelet.NodeReport, error) {
	ctx, cancel := context.WithTimeout(ctx, sshAnswer)
	defer cancel()
	out, err := b.Env.Machine.Output(ctx, "ssh", b.line(n, showArgs(more)...)...)
	if err != nil {
		return nil, err
	}
	report, err := readReport(n, out)
	if err != nil {
		return nil, err
	}
	wanted, err := ExpectedMachine(b.Env, n)
	if err != nil {
		return nil, err
	}
	if err := wanted.Check(report.Whose); err != nil {
		return nil, fmt.Errorf("ask who answers at %s: %w", n.IP, err)
	}
	return report, nil
}

// ReachBySSH asks all machines that a run over SSH is to change. Nil: it was not asked, or what stands against it is
// noted.
func ReachBySSH(ctx context.Context, env *workflow.Env, r Remote, plan []*Node) []*kubelet.NodeReport {
	if r.Via != ViaSSH {
		return make([]*kubelet.NodeReport, len(plan))
	}
	reports, failed := ShowEach(ctx, ViaSSH, SSH{Env: env, User: r.SSHUser}, plan)
	for i, err := range failed {
		if err != nil {
			plan[i].Problems = append(plan[i].Problems, finding.Clean(err.Error()))
		}
	}
	return reports
}
