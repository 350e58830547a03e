package phases

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// Via is how a step on another machine is done.
type Via string

// The ways.
const (
	// ViaHand prints the command, and waits until somebody has run it.
	ViaHand Via = "hand"
	// ViaPods runs it in a pod of its own on that node.
	ViaPods Via = "pods"
	// ViaSSH runs it with the OpenSSH client.
	ViaSSH Via = "ssh"
)

// Remote is how a run does steps on other machines.
type Remote struct {
	// Via is the way.
	Via Via
	// Image is that of the pods that do them, whose entrypoint is ccmadm.
	Image string
	// SSHUser is who does them.
	SSHUser string
	// Skip names nodes that are left as they are.
	Skip []string
	// Parallel is how many workers are changed at a time.
	Parallel int
}

// check refuses a word that is misspelled before anything is done: a node that is to be skipped would be changed.
func (r Remote) check(plan []*plannedNode) error {
	switch r.Via {
	case ViaHand, ViaPods, ViaSSH, "":
	default:
		return finding.Usagef("read --via: %q is none of %s, %s, %s", r.Via, ViaHand, ViaPods, ViaSSH).
			WithHint("nothing was changed")
	}
	for _, name := range r.Skip {
		if !slices.ContainsFunc(plan, func(n *plannedNode) bool { return n.name == name }) {
			return finding.Usagef("read --skip: there is no Node/%s", name).
				WithHint("`ccmadm status` names the nodes; nothing was changed")
		}
	}
	return nil
}

// byHand tells whether somebody has to go to the machines.
func (r Remote) byHand() bool { return r.Via == ViaHand || r.Via == "" }

// stepper runs ccmadm on the machine of a node.
type stepper interface {
	run(ctx context.Context, n *plannedNode, args ...string) error
	// patience is how long its effect may take to be seen.
	patience() time.Duration
}

// asker is a stepper that can also ask a machine for what it has, which changes nothing there.
type asker interface {
	stepper
	// show adds more arguments to those that say what is asked for.
	show(ctx context.Context, n *plannedNode, more ...string) (*NodeReport, error)
}

// byHandPatience is for whoever has to go to the machine.
const byHandPatience = 30 * time.Minute

// newStepper goes by what Remote.check lets through.
func newStepper(d *Data, client kubernetes.Interface, r Remote, timeout time.Duration) stepper {
	takes := 2*timeout + time.Minute // a kubelet that does not come back is given its former flags
	switch r.Via {
	case ViaPods:
		return here{d, r, timeout, &byPods{d: d, client: client, image: r.Image, prefix: stepPrefix, takes: takes, grace: takes}}
	case ViaSSH:
		return here{d, r, timeout, bySSH{d: d, user: r.SSHUser, takes: takes}}
	default:
		return here{d, r, timeout, byHand{d}}
	}
}

// here does `ccmadm node ...` on this machine in this process, and leaves other machines to another way.
type here struct {
	d       *Data
	remote  Remote
	timeout time.Duration // of a kubelet that is restarted
	others  stepper
}

func (h here) run(ctx context.Context, n *plannedNode, args ...string) error {
	if !n.here {
		args = append([]string{"node"}, args...)
		if h.timeout != NodeTimeout {
			args = append(args, "--timeout="+h.timeout.String())
		}
		if h.remote.Via == ViaSSH {
			wanted, err := whose(h.d, n)
			if err != nil {
				return err
			}
			args = append(args, wanted.flags()...)
		}
		return h.others.run(ctx, n, args...)
	}
	d := NewNode(h.d.Machine, NodeOptions{}, h.d.Streams, h.d.Version).in(n.name)
	o := NodeOptions{Timeout: h.timeout}
	for _, arg := range args {
		if ip, is := strings.CutPrefix(arg, "--node-ip="); is {
			o.NodeIP = ip
		}
	}
	if args[0] == "plain" {
		return Plain(ctx, d, o)
	}
	return External(ctx, d, o)
}

func (h here) patience() time.Duration { return h.others.patience() }

type byHand struct{ d *Data }

func (b byHand) run(_ context.Context, n *plannedNode, args ...string) error {
	b.d.Sayf("on %s, as root, run: ccmadm %s", n.name, strings.Join(args, " "))
	b.d.Sayf("waiting for it; Ctrl-C stops here, and the same command goes on")
	return nil
}

func (b byHand) patience() time.Duration { return byHandPatience }

// nodeLines repeats what is said on another machine, line by line, as it is said.
type nodeLines struct {
	d    *Data
	node string
	rest []byte // of a line that has not ended
}

// maxLine is how much of a line is kept until its end comes.
const maxLine = 64 << 10

func (l *nodeLines) Write(data []byte) (int, error) {
	l.rest = append(l.rest, data...)
	for {
		line, rest, ended := bytes.Cut(l.rest, []byte("\n"))
		if !ended && len(line) < maxLine {
			return len(data), nil
		}
		l.say(line)
		l.rest = rest
	}
}

// end says what has no end of a line.
func (l *nodeLines) end() {
	l.say(l.rest)
	l.rest = nil
}

func (l *nodeLines) say(line []byte) {
	if len(line) > 0 {
		l.d.Sayf("%s: %s", l.node, finding.Clean(string(line)))
	}
}

// showEach asks machines, many at the same time: who cannot be reached is known before anything is changed. This
// machine, those that are skipped, and those that are not Ready are not asked: neither an answer nor an error.
func showEach(
	ctx context.Context, via Via, way asker, plan []*plannedNode, more ...string,
) (reports []*NodeReport, failed []error) {
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
		if other := n.sharesAddress(plan); via == ViaSSH && other != "" {
			a.err = finding.Refusedf("its address %s is also that of Node/%s: nobody knows which of them SSH reaches",
				n.ip, other).WithHint("where it is not that of Node/%s: --skip %s", other, other)
			return a
		}
		a.report, a.err = way.show(ctx, n, more...)
		return a
	})
	for _, a := range answers {
		reports, failed = append(reports, a.report), append(failed, a.err)
	}
	return reports, failed
}

// showArgs are those of the command that says what a machine has.
func showArgs(more []string) []string {
	return append([]string{"node", "show", "--output=json"}, more...)
}

func readReport(n *plannedNode, text []byte) (*NodeReport, error) {
	var report NodeReport
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("read what ccmadm node show says on %s: %w", n.name, err)
	}
	return &report, nil
}

// elsewhere is the error of a command on another machine. Of its exit statuses only one says that all was done.
func elsewhere(status int, err error) error {
	if finding.ExitCode(status) != finding.ExitNotInTime {
		return err
	}
	return &finding.Error{Code: finding.ExitNotInTime, Err: err}
}

// exitStatus is that of a program that has ended; -1: it has not.
func exitStatus(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
