package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/templates"
)

// Upstream's names of the controllers.
const (
	nodeController      = "cloud-node-controller"
	lifecycleController = "cloud-node-lifecycle-controller"
)

// KubeconfigPlace stands in Options.Args for the kubeconfig that the program gets.
const KubeconfigPlace = "${kubeconfig}"

// ours are flags that hold the rehearsal together: no argument may set them. Leader election stays on, by a Lease in
// our memory, so that a program that outlives us ends by itself.
func ours(controller, kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--controllers=" + controller,
		"--use-service-account-credentials=false",
		"--leader-elect=true",
		"--secure-port=0",
	}
}

// tuning makes 1,000 Nodes quick, and keeps the program off ports. An older program lacks some of these flags.
func tuning() []string {
	return []string{
		"--webhook-secure-port=0", "--allocate-node-cidrs=false", "--configure-cloud-routes=false",
		"--concurrent-node-syncs=10", "--kube-api-qps=300", "--kube-api-burst=600", "--node-monitor-period=1s",
	}
}

// CheckArgs refuses arguments of Options that are the rehearsal's own, or by which a program would go to another API
// server.
func CheckArgs(args []string) error {
	reserved := append(ours("", ""), "--master=")
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.ReplaceAll(arg, "_", "-"), "=") // upstream takes one for the other
		if slices.ContainsFunc(reserved, func(own string) bool { return strings.HasPrefix(own, name+"=") }) {
			return fmt.Errorf("argument %s: a rehearsal sets it itself", name)
		}
	}
	_, err := templates.MergeArgs(nil, args)
	return err
}

func (r *rehearsal) arguments(controller, kubeconfig string) ([]string, error) {
	own := slices.Clone(r.Args)
	for i := range own {
		own[i] = strings.ReplaceAll(own[i], KubeconfigPlace, kubeconfig)
	}
	args, err := templates.MergeArgs(tuning(), own)
	if err != nil {
		return nil, err
	}
	return templates.MergeArgs(args, ours(controller, kubeconfig))
}

// pass runs the program with one controller until done says so, it ends, or the time is up.
func (r *rehearsal) pass(ctx context.Context, controller string, s *shadow, done func(*logParser) bool) (*result, error) {
	p, err := serve(ctx, r.upstream, s, r.MayRead, r.dir)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	args, err := r.arguments(controller, p.kubeconfig)
	if err != nil {
		return nil, err
	}
	for {
		w := newLogParser(r.Log)
		complete, err := r.attempt(ctx, args, w, done)
		if err == nil {
			return &result{shadow: s, logParser: w, complete: complete}, nil
		}
		var adapted bool
		if args, adapted = adapt(args, w); !adapted {
			return nil, err
		}
	}
}

// result is what a pass has found.
type result struct {
	*shadow
	*logParser
	// complete says that every Node has had its turn.
	complete bool
}

// attempt starts the program, and ends it when done says so. It is false where the time was up before.
func (r *rehearsal) attempt(ctx context.Context, args []string, w *logParser, done func(*logParser) bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	running, end := context.WithCancel(ctx)
	defer end()
	cmd := exec.CommandContext(running, r.Program, args...)
	cmd.Env = append(slices.Clone(r.Env), "HOME="+r.dir)
	cmd.Dir = r.dir
	cmd.Stdout, cmd.Stderr = w, w
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start the cloud-controller-manager: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			w.end()
			if ctx.Err() == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return false, endedEarly(ctx, err, w)
			}
			return false, nil
		case <-tick.C:
			reason := w.reasonDisabled()
			over := done(w)
			if !over && reason == "" {
				continue
			}
			end()
			<-ended
			if !over {
				return false, finding.RehearsalEnded.Errorf(
					"run the cloud-controller-manager: its controller does not start: %s", reason)
			}
			return true, nil
		}
	}
}

// endedEarly is the program's own end, or that of the run.
func endedEarly(ctx context.Context, err error, w *logParser) error {
	if ctx.Err() != nil {
		return fmt.Errorf("rehearse: %w", ctx.Err())
	}
	if err == nil {
		err = errors.New("exit status 0")
	}
	return finding.RehearsalEnded.Errorf("run the cloud-controller-manager: it ends with %w: %s", err, w.final())
}

// adapt returns arguments for a program that has refused those of a newer one: tuning that it lacks, and the names that
// controllers had before Kubernetes 1.28.
func adapt(args []string, w *logParser) ([]string, bool) {
	flag, oldNames := w.refusedArgs()
	if oldNames {
		i := slices.IndexFunc(args, func(arg string) bool {
			return strings.HasPrefix(arg, "--controllers=") && strings.HasSuffix(arg, "-controller")
		})
		if i < 0 {
			return nil, false
		}
		args = slices.Clone(args)
		args[i] = strings.TrimSuffix(args[i], "-controller")
		return args, true
	}
	ofFlag := func(arg string) bool { return strings.HasPrefix(arg, flag+"=") }
	if flag == "" || !slices.ContainsFunc(tuning(), ofFlag) || !slices.ContainsFunc(args, ofFlag) {
		return nil, false
	}
	return slices.DeleteFunc(slices.Clone(args), ofFlag), true
}
