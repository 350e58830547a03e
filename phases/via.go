package phases

import (
	"context"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
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

// stepper does `ccmadm node ...` on the machine of a node.
type stepper interface {
	run(ctx context.Context, n *plannedNode, args ...string) error
	// patience is how long its effect may take to be seen.
	patience() time.Duration
}

// byHandPatience is for whoever has to go to the machine.
const byHandPatience = 30 * time.Minute

// newStepper goes by what checkAsked lets through.
func newStepper(d *Data, client kubernetes.Interface) stepper {
	switch d.Adoption.Via {
	case ViaPods:
		return here{d, &byPods{d: d, client: client}}
	case ViaSSH:
		return here{d, bySSH{d}}
	default:
		return here{d, byHand{d}}
	}
}

// here does the steps of this machine in this process, and leaves those of others to another way.
type here struct {
	d      *Data
	others stepper
}

func (h here) run(ctx context.Context, n *plannedNode, args ...string) error {
	if !n.here {
		if given := h.d.Adoption.NodeTimeout; given != NodeTimeout {
			args = append(args, "--timeout="+given.String())
		}
		if h.d.Adoption.Via == ViaSSH {
			wanted, err := whose(h.d, n)
			if err != nil {
				return err
			}
			args = append(args, wanted.flags()...)
		}
		return h.others.run(ctx, n, args...)
	}
	d := NewNode(h.d.Machine, NodeOptions{}, h.d.Streams, h.d.Version).in(n.name)
	o := NodeOptions{Timeout: h.d.Adoption.NodeTimeout}
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
	b.d.Sayf("on %s, as root, run: ccmadm node %s", n.name, strings.Join(args, " "))
	b.d.Sayf("waiting for it; Ctrl-C stops here, and the same command goes on")
	return nil
}

func (b byHand) patience() time.Duration { return byHandPatience }

// tellOfNode repeats what was said on another machine.
func tellOfNode(d *Data, n *plannedNode, text string) {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if line != "" {
			d.Sayf("%s: %s", n.name, finding.Clean(line))
		}
	}
}
