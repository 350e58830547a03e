package kubelet

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// NodeOptions are those of a step on one machine that is a node already.
type NodeOptions struct {
	// Whose is the machine that the step is for: on any other one it is refused.
	Whose

	// NodeIP is the kubelet's address, one of each family; empty: those that its Node has.
	NodeIP string
	// Timeout is how long the kubelet may take to come back.
	Timeout time.Duration
	// Forget takes away what ccmadm has noted on the machine, once its kubelet is back.
	Forget bool
	// Purge takes away whatever is ccmadm's there.
	Purge bool
	// DryRun shows what would change, and changes nothing.
	DryRun bool
}

// NewNode returns the Env of a step on one machine, which knows nothing of its cluster.
func NewNode(m *machine.Machine, o NodeOptions, s workflow.Streams, version string) *workflow.Env {
	env := workflow.NewEnv(m, s, version, o.DryRun)
	env.Phase = "node"
	return env
}

// External sets the kubelet of a machine that is a node already to external cloud mode, with the address that its Node
// has: then no cloud-controller-manager gives it another one. It writes the drop-in of the kubelet phase, restarts the
// kubelet, and looks at its command line. Where it does not come back, its former flags are given back to it. The Node
// itself is not touched: without a taint nobody initializes it.
func External(ctx context.Context, env *workflow.Env, o NodeOptions) error {
	release, err := checkNode(ctx, env, o)
	if err != nil {
		return err
	}
	defer release()
	ip, err := addressOfNode(ctx, env, o.NodeIP)
	if err != nil {
		return err
	}
	ours, err := FlagsToAdd(env.Machine, ip)
	if err != nil {
		return err
	}
	former, err := keepKubeletFiles(env.Machine)
	if err != nil {
		return err
	}
	running, err := env.Machine.RunningKubelet(ctx)
	if err != nil {
		return err
	}
	if len(ours) > 0 {
		args, err := keptArgs(ctx, env.Machine, ours)
		if err != nil {
			return err
		}
		if err := writeFlags(env, args); err != nil {
			return err
		}
	}
	var now *machine.Kubelet
	err = former.settle(ctx, env, o.Timeout, func(k *machine.Kubelet) error {
		now = k
		return runsWith(k, map[string]string{"cloud-provider": "external", "node-ip": ip})
	})
	if err == nil && len(ours) > 0 {
		sayLost(env, running, now)
	}
	return err
}

// checkNode finds what no step on this machine could be done without, and waits for another one that is at work here:
// one over SSH may outlive the run that has begun it. No other one begins until it is released.
func checkNode(ctx context.Context, env *workflow.Env, o NodeOptions) (release func(), err error) {
	if !env.Machine.Superuser {
		return nil, workflow.ErrNotRoot("change the kubelet's flags")
	}
	if err := checkAstray(env.Machine); err != nil {
		return nil, err
	}
	there, err := env.Machine.Exists(machine.KubeletConf)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, finding.Refusedf("change the kubelet's flags: there is no %s", machine.KubeletConf).
			WithHint("this machine is no node: `ccmadm join` makes it one")
	}
	if err := o.Check(WhoseMachine(env.Machine)); err != nil {
		return nil, finding.Refusedf("change the kubelet's flags of this machine: %w", err).WithHint("nothing was changed")
	}
	if release, err = AloneHere(ctx, env, 2*o.Timeout+time.Minute); err != nil {
		return nil, err
	}
	if err := checkKubelet(ctx, env.Machine); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// AloneHere keeps other steps and upgrades from this machine, and waits so long for one that is at work. A step has the
// kubelet started twice at most, the second time with its former flags.
func AloneHere(ctx context.Context, env *workflow.Env, patience time.Duration) (release func(), err error) {
	if env.DryRun {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	release, err = env.Machine.Lock(ctx, filepath.Dir(machine.KubeletConfig), func() {
		env.Sayf("another ccmadm process changes this machine: waiting for its end")
	})
	if err != nil {
		return nil, finding.Refusedf("wait for the end of another step on this machine: %w", err).
			WithHint("ps aux | grep ccmadm shows it; run the same command again when it has ended; nothing was changed")
	}
	return release, nil
}

// checkKubelet finds what is wrong with the kubelet as it is.
func checkKubelet(ctx context.Context, m *machine.Machine) error {
	running, err := m.RunningKubelet(ctx)
	if err != nil {
		return err
	}
	if running == nil {
		return finding.Refusedf("change the kubelet's flags: it does not run, so a check afterwards could not tell whether the change broke it").
			WithHint("start it first: systemctl start kubelet; journalctl -u kubelet shows why it ended; nothing was changed")
	}
	uses, err := m.KubeletFlags("cloud-provider", "node-ip")
	if err != nil {
		return err
	}
	return RefuseTwice(uses)
}

// addressOfNode is what was given, or what the Node has now.
func addressOfNode(ctx context.Context, env *workflow.Env, given string) (string, error) {
	if given == "" {
		client, err := workflow.Connect(env, machine.KubeletConf)
		if err != nil {
			return "", err
		}
		name := workflow.NodeOfKubelet(env.Machine)
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", finding.Refusedf("ask for the address of Node/%s: %w", name, err).
				WithHint("--node-ip gives it; nothing was changed")
		}
		if given = NodeIP(node); given == "" {
			return "", finding.Refusedf("Node/%s has no InternalIP to be kept", name).
				WithHint("--node-ip gives it; nothing was changed")
		}
	}
	addrs, err := config.ParseAddresses(given)
	if err != nil {
		return "", finding.Usagef("read --node-ip: %w", err)
	}
	if err := env.Machine.CheckLocal(addrs); err != nil {
		return "", finding.Preflightf("%w", err)
	}
	return given, nil
}

// NodeIP is the value of --node-ip that keeps a Node's addresses: the first InternalIP of each family.
func NodeIP(node *corev1.Node) string {
	var list []string
	for _, ip := range nodestatus.FirstOfEachFamily(nodestatus.InternalIPs(node)) {
		list = append(list, ip.String())
	}
	return strings.Join(list, ",")
}

// FlagsToAdd are those that stand nowhere yet. What stands elsewhere has to say the same.
func FlagsToAdd(m *machine.Machine, ip string) ([]string, error) {
	var ours []string
	for _, flag := range []struct{ name, value string }{{"cloud-provider", "external"}, {"node-ip", ip}} {
		uses, err := m.KubeletFlags(flag.name)
		if err != nil {
			return nil, err
		}
		if len(uses) == 0 {
			ours = append(ours, "--"+flag.name+"="+flag.value)
			continue
		}
		if uses[0].Value != flag.value {
			return nil, finding.Refusedf("set the kubelet's --%s=%s: %s takes precedence", flag.name, flag.value, uses[0]).
				WithHint("remove it there; nothing was changed")
		}
	}
	uses, err := m.KubeletFlags("cloud-config")
	if err != nil || len(uses) == 0 {
		return ours, err
	}
	return nil, finding.Refusedf("%s: the kubelet refuses --cloud-config since 1.34", uses[0]).
		WithHint("remove it there; nothing was changed")
}

func writeFlags(env *workflow.Env, args string) error {
	if err := env.Write(machine.File{Path: machine.KubeletEnvFile, Data: kubeletEnv(args), Mode: 0o644}); err != nil {
		return err
	}
	return env.Write(machine.File{Path: machine.KubeletDropIn, Data: templates.KubeletDropIn(), Mode: 0o644})
}

// runsWith tells which flag a kubelet has not as wanted.
func runsWith(k *machine.Kubelet, flags map[string]string) error {
	for name, want := range flags {
		if got, _ := k.Flag(name); got != want {
			return fmt.Errorf("it runs with --%s=%q, not %q", name, got, want)
		}
	}
	return nil
}
