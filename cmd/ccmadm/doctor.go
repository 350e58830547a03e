package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/manifests/lint"
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
	observer
	from, save string
	timeout    time.Duration
	// host adds the machine whose root is mounted at root.
	host bool
	root string
	// watch looks again after each interval; fix applies what is safe, without a question where yes is set.
	watch, fix, yes bool
	interval        time.Duration
}

func newDoctor(s workflow.Streams) *cobra.Command {
	var d doctor
	cmd := &cobra.Command{
		Use:   "doctor [NODE...]",
		Short: "Find what is wrong with the cluster, causes before their consequences",
		Long: `Looks at Nodes, the cloud-controller-manager of any vendor, its pods, log, permissions and Lease, at webhooks, Services,
routes and versions, once each, and says what is wrong: a cause with all objects that have it, what follows from it, and
last what to do. With names of Nodes, what concerns these. It reads no Secret.

With --host it looks at the machine on which it runs as well: the kubelet's process against the files that it should have its
flags from, its unit, ports that others have taken, static pods' files, certificates, the clock beside the API server's, the
resolver, the container runtime and disks. That needs no cluster, and sees most as root.

With --fix it applies the remedies that the catalogue calls safe, after it has shown them and asked. Nothing else changes
anything.

What it may not see it says ("not seen"), and takes for nothing. --save writes all that was seen to a file, without
credentials, which --from diagnoses anywhere, without a cluster.` + exitStatuses(
			ending{finding.ExitDone, "nothing was found"}, ending{finding.ExitError, "the cluster does not answer"},
			ending{finding.ExitFound, "something is wrong"}),
		Example: `  ccmadm doctor
  ccmadm doctor --host
  ccmadm doctor --watch
  ccmadm doctor --fix
  ccmadm doctor --save snapshot.json
  ccmadm doctor --from snapshot.json`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := d.check(); err != nil {
				return err
			}
			if d.watch {
				return d.watchCluster(cmd.Context(), s, names)
			}
			snapshot, err := d.look(cmd.Context(), s)
			if err != nil {
				return err
			}
			found := diagnosis.Diagnose(snapshot, lintManagers, lintKubeadm).Of(names)
			err = d.tell(s, found)
			if d.fix && (err == nil || errors.Is(err, errFound)) {
				return d.fixAll(cmd.Context(), s, names, snapshot, found)
			}
			return err
		},
	}
	d.declareAll(cmd)
	return cmd
}

// declareAll is for doctor itself; why has less.
func (d *doctor) declareAll(cmd *cobra.Command) {
	d.declareFormats(cmd, "text", "json", "sarif", "html")
	d.declareSource(cmd)
	d.declareHost(cmd)
	cmd.Flags().StringVar(&d.save, "save", "", "write what was seen to this file, as JSON")
	cmd.MarkFlagsMutuallyExclusive("save", "from")
	cmd.Flags().BoolVar(&d.watch, "watch", false, "look again and again, and show what has changed, until Ctrl-C")
	cmd.Flags().DurationVar(&d.interval, "interval", 10*time.Second, "how long --watch waits between two looks")
	cmd.Flags().BoolVar(&d.fix, "fix", false, "apply the remedies that are safe: they are shown, and then it asks")
	cmd.Flags().BoolVar(&d.yes, "yes", false, "let --fix not ask")
	for _, other := range []string{"watch", "from"} {
		cmd.MarkFlagsMutuallyExclusive("fix", other)
	}
	cmd.MarkFlagsMutuallyExclusive("watch", "from")
	cmd.MarkFlagsMutuallyExclusive("watch", "save")
}

// check refuses flags that have no meaning together.
func (d *doctor) check() error {
	switch err := d.checkFormat(); {
	case err != nil:
		return err
	case (d.watch || d.fix) && d.output != "text":
		return finding.Usagef("read --output: --watch and --fix show text, not %s", d.output)
	case d.interval < time.Second:
		return finding.Usagef("read --interval: %s is less than a second", d.interval)
	case d.yes && !d.fix:
		return finding.Usagef("read --yes: it is for --fix")
	}
	return nil
}

func newWhy(s workflow.Streams) *cobra.Command {
	var d doctor
	cmd := &cobra.Command{
		Use:   "why NODE",
		Short: "Say in five lines what is wrong with one node",
		Long: `Says how far the node has come, its cause, what was seen, what else there is, and what to do next: the doctor's answer
for one node.` + exitStatuses(
			ending{finding.ExitDone, "nothing is wrong with the Node"}, ending{finding.ExitError, "the cluster does not answer"},
			ending{finding.ExitFound, "something is wrong with the Node"}),
		Example: "  ccmadm why w1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return finding.Usagef("%s: want one node, got %d arguments", cmd.CommandPath(), len(args)).
					WithHint("%s w1; ccmadm status shows them", cmd.CommandPath())
			}
			diagnosis, err := d.diagnose(cmd.Context(), s)
			if err != nil {
				return err
			}
			wrong, err := diagnosis.WriteWhy(s.Out, args[0])
			if err == nil && wrong {
				err = errFound
			}
			return err
		},
	}
	d.declareKubeconfig(cmd)
	d.declareSource(cmd)
	return cmd
}

func (d *doctor) declareHost(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&d.host, "host", false, "look at this machine, too: its kubelet, files, ports, certificates, clock, resolver and disks")
	cmd.Flags().StringVar(&d.root, "root", "/", "where the machine's root is mounted: in a pod with hostPID and hostNetwork, /host say")
	cmd.MarkFlagsMutuallyExclusive("host", "from")
}

func (d *doctor) declareSource(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.from, "from", "", "diagnose this file of --save, or - for standard input, instead of a cluster")
	cmd.Flags().DurationVar(&d.timeout, "timeout", 30*time.Second, "how long to look; what was not seen by then is said")
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
func (d *doctor) cluster(ctx context.Context, s workflow.Streams) (*diagnosis.Snapshot, error) {
	config, err := d.config(s)
	if err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, finding.Usagef("connect to the cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	snapshot, err := diagnosis.Gather(ctx, client)
	if err != nil {
		return nil, notSeen(err, hintBlind(err))
	}
	readJournal(ctx, client, snapshot)
	return snapshot, nil
}

func (d *doctor) tell(s workflow.Streams, found *diagnosis.Diagnosis) error {
	var err error
	switch d.output {
	case "json":
		err = printJSON(s.Out, found)
	case "sarif":
		list := found.Findings()
		err = lint.WriteSARIF(s.Out, version, diagnosis.Kinds(list), list)
	case "html":
		err = found.WriteHTML(s.Out)
	default:
		err = found.WriteText(s.Out, colours(s))
	}
	if err != nil {
		return fmt.Errorf("show the diagnosis: %w", err)
	}
	return verdict(found)
}

// verdict is a diagnosis as exit status.
func verdict(found *diagnosis.Diagnosis) error {
	switch errorCount, warnings := found.Count(); {
	case errorCount+warnings > 0:
		return errFound
	case found.Blind():
		return notSeen(errors.New("look at the cluster: its nodes were not seen"), "")
	}
	return nil
}

// colours says whether somebody looks who wants them.
func colours(s workflow.Streams) bool {
	out, isFile := s.Out.(*os.File)
	return isFile && term.IsTerminal(int(out.Fd())) && (s.Getenv == nil || s.Getenv("NO_COLOR") == "")
}
