package phases

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
)

// bySSH asks for no password: what cannot be done without one is done by hand.
type bySSH struct {
	d     *Data
	user  string
	takes time.Duration
}

var _ asker = bySSH{}

// sshAnswer is how long a machine may take to say over SSH what it has.
const sshAnswer = time.Minute

func (b bySSH) patience() time.Duration { return b.takes }

func (b bySSH) run(ctx context.Context, n *plannedNode, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, b.takes)
	defer cancel()
	line := b.line(n, args...)
	out := &nodeLines{d: b.d, node: n.name}
	err := b.d.Machine.Runner.Run(ctx, machine.Command{Name: "ssh", Args: line, Out: out, Err: out, Changes: true})
	out.end()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("run ssh %s: %w", strings.Join(shownArgs(line), " "), err)
	if ctx.Err() != nil { // what runs there outlives the client
		return finding.Errorf("%w: %w", err, ctx.Err()).
			WithHint("it may be at work there still, and comes to its end by itself: the same command waits for it")
	}
	return elsewhere(exitStatus(err), err)
}

func (b bySSH) line(n *plannedNode, args ...string) []string {
	address, _, _ := strings.Cut(n.ip, ",")
	if b.user != "" {
		address = b.user + "@" + address
	}
	line := []string{
		"-o", "BatchMode=yes", "-o", "ConnectTimeout=10",
		"-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", address, "--", "ccmadm",
	}
	for _, arg := range args {
		line = append(line, quoted(arg))
	}
	return line
}

// plainWord is what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoted is a word for the shell of the other machine, which takes the line apart again.
func quoted(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// show asks a machine for its programs and its kubelet's flags.
func (b bySSH) show(ctx context.Context, n *plannedNode, more ...string) (*NodeReport, error) {
	ctx, cancel := context.WithTimeout(ctx, sshAnswer)
	defer cancel()
	out, err := b.d.Machine.Output(ctx, "ssh", b.line(n, showArgs(more)...)...)
	if err != nil {
		return nil, err
	}
	report, err := readReport(n, out)
	if err != nil {
		return nil, err
	}
	wanted, err := whose(b.d, n)
	if err != nil {
		return nil, err
	}
	if err := wanted.check(report.Whose); err != nil {
		return nil, fmt.Errorf("ask who answers at %s: %w", n.ip, err)
	}
	return report, nil
}

// reachBySSH asks all machines that a run over SSH is to change. Nil: it was not asked, or what stands against it is
// noted.
func reachBySSH(ctx context.Context, d *Data, r Remote, plan []*plannedNode) []*NodeReport {
	if r.Via != ViaSSH {
		return make([]*NodeReport, len(plan))
	}
	reports, failed := showEach(ctx, ViaSSH, bySSH{d: d, user: r.SSHUser}, plan)
	for i, err := range failed {
		if err != nil {
			plan[i].problems = append(plan[i].problems, finding.Clean(err.Error()))
		}
	}
	return reports
}
