package fleet

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
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/workflow"
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
	// LogTimeout is that of Pods.
	LogTimeout time.Duration
}

// Check refuses a word that is misspelled before anything is done: a node that is to be skipped would be changed.
func (r Remote) Check(plan []*Node) error {
	switch r.Via {
	case ViaHand, ViaPods, ViaSSH, "":
	default:
		return finding.Usagef("read --via: %q is none of %s, %s, %s", r.Via, ViaHand, ViaPods, ViaSSH).
			WithHint("nothing was changed")
	}
	for _, name := range r.Skip {
		if !slices.ContainsFunc(plan, func(n *Node) bool { return n.Name == name }) {
			return finding.Usagef("read --skip: there is no Node/%s", name).
				WithHint("`ccmadm status` names the nodes; nothing was changed")
		}
	}
	return nil
}

// ByHand tells whether somebody has to go to the machines.
func (r Remote) ByHand() bool { return r.Via == ViaHand || r.Via == "" }

// Runner runs ccmadm on the machine of a node.
type Runner interface {
	Run(ctx context.Context, n *Node, t Task) error
	// Patience is how long its effect may take to be seen.
	Patience() time.Duration
}

// Inspector is a Runner that can also ask a machine for what it has, which changes nothing there.
type Inspector interface {
	Runner
	// Show adds more arguments to those that say what is asked for.
	Show(ctx context.Context, n *Node, more ...string) (*kubelet.NodeReport, error)
}

// manualPatience is the time that an administrator has to go to the machine.
const manualPatience = 30 * time.Minute

// NewRunner goes by what Remote.Check lets through.
func NewRunner(env *workflow.Env, client kubernetes.Interface, r Remote, timeout time.Duration) Runner {
	takes := 2*timeout + time.Minute // a kubelet that does not come back is given its former flags
	switch r.Via {
	case ViaPods:
		return local{env, r, timeout, &Pods{
			Env: env, Client: client, Image: r.Image, Prefix: StepPrefix, Takes: takes, Grace: takes, LogTimeout: r.LogTimeout,
		}}
	case ViaSSH:
		return local{env, r, timeout, SSH{Env: env, User: r.SSHUser, Takes: takes}}
	default:
		return local{env, r, timeout, manual{env}}
	}
}

// local does `ccmadm node ...` on this machine in this process, and leaves other machines to another way.
type local struct {
	env     *workflow.Env
	remote  Remote
	timeout time.Duration // of a kubelet that is restarted
	others  Runner
}

func (l local) Run(ctx context.Context, n *Node, t Task) error {
	if !n.Here {
		args := t.command()
		if l.timeout != NodeTimeout {
			args = append(args, "--timeout="+l.timeout.String())
		}
		if l.remote.Via == ViaSSH {
			wanted, err := ExpectedMachine(l.env, n)
			if err != nil {
				return err
			}
			args = append(args, wanted.Flags()...)
		}
		return l.others.Run(ctx, n, Command(args))
	}
	env := kubelet.NewNode(l.env.Machine, kubelet.NodeOptions{}, l.env.Streams, l.env.Version).InPhase(n.Name)
	o := kubelet.NodeOptions{Timeout: l.timeout}
	switch t := t.(type) {
	case External:
		o.NodeIP = t.NodeIP
		return kubelet.External(ctx, env, o)
	case Plain:
		return kubelet.Plain(ctx, env, o)
	}
	return fmt.Errorf("run ccmadm %s: it is for other machines", strings.Join(t.command(), " "))
}

func (l local) Patience() time.Duration { return l.others.Patience() }

type manual struct{ env *workflow.Env }

func (m manual) Run(_ context.Context, n *Node, t Task) error {
	m.env.Sayf("on %s, as root, run: ccmadm %s", n.Name, strings.Join(t.command(), " "))
	m.env.Sayf("waiting for it; Ctrl-C stops here; the same command resumes")
	return nil
}

func (m manual) Patience() time.Duration { return manualPatience }

// nodeLines repeats what is said on another machine, line by line, as it is said.
type nodeLines struct {
	env  *workflow.Env
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
		l.env.Sayf("%s: %s", l.node, finding.Clean(string(line)))
	}
}

// ShowEach asks machines, many at the same time: who cannot be reached is known before anything is changed. This
// machine, those that are skipped, and those that are not Ready are not asked: neither an answer nor an error.
func ShowEach(
	ctx context.Context, via Via, way Inspector, plan []*Node, more ...string,
) (reports []*kubelet.NodeReport, failed []error) {
	type answer struct {
		report *kubelet.NodeReport
		err    error
	}
	byName, names := map[string]*Node{}, make([]string, len(plan))
	for i, n := range plan {
		byName[n.Name], names[i] = n, n.Name
	}
	answers := nodes.AskEach(ctx, names, func(ctx context.Context, name string) (a answer) {
		n := byName[name]
		if n.Here || n.Skipped || !n.Ready {
			return a
		}
		if other := n.sharesAddress(plan); via == ViaSSH && other != "" {
			a.err = finding.Refusedf("its address %s is also that of Node/%s: it is not known which of them SSH reaches",
				n.IP, other).WithHint("where it is not that of Node/%s: --skip %s", other, other)
			return a
		}
		a.report, a.err = way.Show(ctx, n, more...)
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

func readReport(n *Node, text []byte) (*kubelet.NodeReport, error) {
	var report kubelet.NodeReport
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("read what ccmadm node show says on %s: %w", n.Name, err)
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
