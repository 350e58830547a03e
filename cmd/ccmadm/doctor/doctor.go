// Package doctor is `ccmadm doctor`, `ccmadm why` and `ccmadm support-bundle`: where a snapshot of a cluster and of this machine comes
// from, and in what form its diagnosis is shown.
//
// Start at [NewCommand]. Package doctor/diagnosis reads the cluster and judges, package doctor/host looks at the machine, package
// doctor/bundle writes archives. rules.go has the rules of lint look at a cluster, journal.go asks whether a run has stopped halfway,
// fix.go applies remedies.
//
// Reads: what these packages read. Writes: with --fix the remedies that were shown, with --save a snapshot, and a support bundle.
// Running it twice: asks again.
// It will not: read a Secret, or change anything without --fix.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/completion"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/probe"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/manifests/lint"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// notSeenError is that a cluster which was named could not be seen: it does not answer, or shows no Node. That is no
// sign of health, and another look may see it.
type notSeenError struct{ error }

// Unwrap returns the cause.
func (e notSeenError) Unwrap() error { return e.error }

// notSeen gives it the exit status of an error, also where the cause has one of its own.
func notSeen(err error, hint string) error {
	return &finding.Error{Code: finding.ExitError, Err: notSeenError{err}, Hint: hint}
}

// doctor is what doctor and why have in common: where a snapshot comes from.
type doctor struct {
	observer.Cluster
	from, save string
	timeout    time.Duration
	// host adds the machine whose root is mounted at root.
	host bool
	root string
	// watch looks again after each interval; fix applies what is safe, without a question where yes is set.
	watch, fix, yes bool
	interval        time.Duration
	// probe asks the network from Nodes, from those of names where there are any.
	probe probe.Flags
	names []string
	// runs is what earlier looks have seen of a run that may be under way.
	runs Runs
	// release is that of ccmadm, for SARIF.
	release string
}

// NewCommand returns `ccmadm doctor`. The image is that of the pods of --probe; the release of ccmadm is in SARIF.
func NewCommand(s workflow.Streams, release, image string) *cobra.Command {
	d := doctor{release: release}
	cmd := &cobra.Command{
		Use:   "doctor [NODE...]",
		Short: "Diagnose the cluster: causes, their consequences and remedies",
		Long: `Reads Nodes, the cloud-controller-manager of any vendor with its pods, log, permissions and Lease, webhooks, Services, routes
and versions, each once, and lists what is wrong: each cause with all of its objects, its consequences, and the remedy. With
names of Nodes it lists only the causes of these. It reads no Secret.

--host also checks the machine where it runs: the kubelet's process against its files of flags, its unit, ports that other
programs use, static pod manifests, certificates, the clock against the API server's, the resolver, the container runtime and
disks. This needs no cluster. Some checks need root.

--probe also asks the network from each Node, by two short-lived pods on it: one with the machine's network, one with the pod network.
They ask the API server at its Service, its endpoint and its own addresses, DNS by UDP and TCP, kubelets of other Nodes, and
load balancers, and read ip_forward and the MTU of the default link. The pods have no privileges and no token. They are deleted at the
end, also after Ctrl-C; those of a killed run are deleted by the next one. Places and questions that were left out are listed as
"not looked at". With names of Nodes only these are asked from.

A note is about what a later version of Kubernetes ends, or a Node that has just joined. It does not change the exit status.

--fix applies the remedies that the catalogue marks as safe: it shows them and asks. Nothing else changes anything.

Objects that you are not allowed to read are listed as "not seen", and are not treated as missing. --save writes everything
that was read to a file, without credentials; --from diagnoses that file anywhere, without a cluster.` + usage.ExitStatuses(usage.Endings{
			finding.ExitDone: "nothing was found",
			finding.ExitError: "the cluster does not answer, or nothing was found and Nodes or kube-system could not be read, " +
				"or --probe could not ask from all Nodes",
			finding.ExitFound: "something is wrong",
		}),
		Example: `  ccmadm doctor
  ccmadm doctor --host
  ccmadm doctor --probe
  ccmadm doctor --watch
  ccmadm doctor --fix
  ccmadm doctor --save snapshot.json
  ccmadm doctor --from snapshot.json`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := cmp.Or(d.check(), d.probe.Check(cmd)); err != nil {
				return err
			}
			d.names = names
			if d.watch {
				return d.watchCluster(cmd.Context(), s, names)
			}
			snapshot, err := d.look(cmd.Context(), s)
			if err != nil {
				return err
			}
			found := diagnosis.Diagnose(snapshot, lintManagers, lintKubeadm).Of(names)
			err = d.tell(s, found)
			if d.fix && (err == nil || errors.Is(err, usage.ErrFound)) {
				return d.fixAll(cmd.Context(), s, names, snapshot, found)
			}
			return err
		},
	}
	d.declareAll(cmd, image)
	return cmd
}

// declareAll is for doctor itself; why has less.
func (d *doctor) declareAll(cmd *cobra.Command, image string) {
	d.DeclareFormats(cmd, output.Text, output.JSON, output.YAML, "sarif", "html")
	d.declareSource(cmd)
	d.declareHost(cmd)
	cmd.Flags().StringVar(&d.save, "save", "", "save the input of the diagnosis to this file, as JSON")
	cmd.MarkFlagsMutuallyExclusive("save", "from")
	cmd.Flags().BoolVar(&d.watch, "watch", false, "repeat the diagnosis, and show changes, until Ctrl-C")
	cmd.Flags().DurationVar(&d.interval, "interval", 10*time.Second, "interval of --watch")
	cmd.Flags().BoolVar(&d.fix, "fix", false, "apply the safe remedies, after showing them and asking")
	cmd.Flags().BoolVar(&d.yes, "yes", false, "let --fix not ask")
	for _, other := range []string{"watch", "from"} {
		cmd.MarkFlagsMutuallyExclusive("fix", other)
	}
	cmd.MarkFlagsMutuallyExclusive("watch", "from")
	cmd.MarkFlagsMutuallyExclusive("watch", "save")
	d.probe.Declare(cmd, image)
	cmd.ValidArgsFunction = completion.Nodes(d.Connect)
}

// check refuses flags that have no meaning together.
func (d *doctor) check() error {
	switch err := d.Output.Check(); {
	case err != nil:
		return err
	case (d.watch || d.fix) && !d.Output.Is(output.Text):
		return finding.Usagef("read --output: --watch and --fix show text, not %s", &d.Output)
	case d.interval < time.Second:
		return finding.Usagef("read --interval: %s is less than a second", d.interval)
	case d.yes && !d.fix:
		return finding.Usagef("read --yes: it is for --fix")
	}
	return nil
}

// runPatience is how long a look may watch the Lease of a run that may be under way. With --watch the next look knows more, if it comes
// before the Lease ends.
func (d *doctor) runPatience() time.Duration {
	if d.watch && d.interval < journal.LeaseLasts {
		return 0
	}
	return journal.WatchLease
}

// NewWhy returns `ccmadm why`.
func NewWhy(s workflow.Streams) *cobra.Command {
	var d doctor
	cmd := &cobra.Command{
		Use:   "why NODE",
		Short: "Show in five lines why one node is not ready",
		Long: `Shows the node's state, its cause, the evidence, other problems, and the next step: the result of "ccmadm doctor" for
one node.` + usage.ExitStatuses(usage.Endings{
			finding.ExitDone:  "nothing is wrong with the Node",
			finding.ExitError: "the cluster does not answer, or nothing was found and Nodes or kube-system could not be read",
			finding.ExitFound: "something is wrong with the Node",
		}),
		Example: "  ccmadm why w1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return finding.Usagef("%s: want one node, got %s", cmd.CommandPath(), finding.Count(len(args), "argument")).
					WithHint("%s w1; ccmadm status shows them", cmd.CommandPath())
			}
			if err := d.Output.Check(); err != nil {
				return err
			}
			found, err := d.diagnose(cmd.Context(), s)
			if err != nil {
				return err
			}
			why := found.Why(args[0])
			err = d.Output.Write(s.Out, output.Object(why), func() error { return why.WriteText(s.Out) })
			switch {
			case err != nil:
				return err
			case why.Cause != nil:
				return usage.ErrFound
			}
			return unseen(found)
		},
	}
	d.DeclareFormats(cmd, output.Text, output.JSON, output.YAML)
	cmd.ValidArgsFunction = completion.Nodes(d.Connect)
	d.declareSource(cmd)
	return cmd
}

func (d *doctor) declareHost(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&d.host, "host", false, "check this machine, too: its kubelet, files, ports, certificates, clock, resolver and disks")
	cmd.Flags().StringVar(&d.root, "root", "/", "where the machine's root is mounted: in a pod with hostPID and hostNetwork, /host say")
	cmd.MarkFlagsMutuallyExclusive("host", "from")
}

func (d *doctor) declareSource(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.from, "from", "", "diagnose this file of --save, a support bundle, or - for standard input, instead of a cluster")
	cmd.Flags().DurationVar(&d.timeout, "timeout", 30*time.Second, "time limit; objects that were not read by then are listed")
}

// look looks, and keeps what it has seen where that was asked for.
func (d *doctor) look(ctx context.Context, s workflow.Streams) (*diagnosis.Snapshot, error) {
	snapshot, err := d.snapshot(ctx, s)
	if err != nil || d.save == "" {
		return snapshot, err
	}
	return snapshot, saveSnapshot(d.save, snapshot)
}

// diagnose looks, and judges.
func (d *doctor) diagnose(ctx context.Context, s workflow.Streams) (*diagnosis.Diagnosis, error) {
	snapshot, err := d.look(ctx, s)
	if err != nil {
		return nil, err
	}
	return diagnosis.Diagnose(snapshot, lintManagers, lintKubeadm), nil
}

func (d *doctor) snapshot(ctx context.Context, s workflow.Streams) (*diagnosis.Snapshot, error) {
	if d.from != "" {
		return readSnapshot(d.from, s.In)
	}
	if d.host {
		return d.withHost(ctx, s)
	}
	return d.cluster(ctx, s)
}

// cluster looks at the cluster alone.
func (d *doctor) cluster(whole context.Context, s workflow.Streams) (*diagnosis.Snapshot, error) {
	config, err := d.Config(s)
	if err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, finding.Usagef("connect to the cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(whole, d.timeout)
	defer cancel()
	d.runs.patience = d.runPatience()
	snapshot, err := gather(ctx, client, &d.runs)
	if err != nil || !d.probe.On {
		return snapshot, err
	}
	return snapshot, d.probe.Add(whole, client, snapshot, d.names, func(line string) {
		fmt.Fprintf(s.Err, "ccmadm: %s\n", finding.Clean(line))
	})
}

// gather is a snapshot with what a command would make of the journal.
func gather(ctx context.Context, client kubernetes.Interface, runs *Runs) (*diagnosis.Snapshot, error) {
	snapshot, err := diagnosis.Gather(ctx, client)
	if err != nil {
		return nil, notSeen(err, observer.HintBlind(err))
	}
	runs.read(ctx, client, snapshot)
	return snapshot, nil
}

func (d *doctor) tell(s workflow.Streams, found *diagnosis.Diagnosis) error {
	var err error
	switch {
	case d.Output.Is("sarif"):
		list := found.Findings()
		err = lint.WriteSARIF(s.Out, d.release, diagnosis.Kinds(list), list)
	case d.Output.Is("html"):
		err = found.WriteHTML(s.Out)
	default:
		err = d.Output.Write(s.Out, output.Object(found), func() error { return found.WriteText(s.Out, colours(s)) })
	}
	if err != nil {
		return fmt.Errorf("show the diagnosis: %w", err)
	}
	return cmp.Or(verdict(found), d.probe.Left())
}

// verdict is a diagnosis as exit status.
func verdict(found *diagnosis.Diagnosis) error {
	if found.Wrong() {
		return usage.ErrFound
	}
	return unseen(found)
}

// unseen is an error where so little was seen that having found nothing is no sign of health.
func unseen(found *diagnosis.Diagnosis) error {
	switch {
	case found.Blind():
		return notSeen(fmt.Errorf("read the cluster: its %s could not be read", strings.Join(found.Unread(), ", its ")), "")
	case found.BlindProbe():
		return notSeen(errors.New("ask the network from each Node: not all could be asked"),
			`the lines "not looked at" and "not seen" say what, and why; ccmadm doctor --probe NODE asks from one Node`)
	}
	return nil
}

// colours reports whether the output is a terminal, and NO_COLOR is not set.
func colours(s workflow.Streams) bool {
	out, isFile := s.Out.(*os.File)
	return isFile && term.IsTerminal(int(out.Fd())) && (s.Getenv == nil || s.Getenv("NO_COLOR") == "")
}
