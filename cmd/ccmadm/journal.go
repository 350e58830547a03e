package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/completion"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newJournal(s workflow.Streams) *cobra.Command {
	var o observer.Cluster
	cmd := &cobra.Command{
		Use:   "journal [RUN]",
		Short: "Show the history of changes by ccmadm, and how to undo them",
		Long: `Lists the runs that changed the cluster, oldest first; with RUN the steps of that run: what each step changed, and how
to undo it. A step is written to the ConfigMap kube-system/` + v1alpha1.JournalName + ` before it begins. A run with state Begun is in
progress or was interrupted; its state is CutShort once another run has begun. When the journal is full, the oldest runs
keep only the steps that did not succeed, until a later run repeats them.

The journal holds no secrets. -o json prints one run a line.`,
		Example: `  ccmadm journal
  ccmadm journal 7`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Output.Check(); err != nil {
				return err
			}
			id, err := runID(args, "a run is shown with all of its steps", "ccmadm journal")
			if err != nil {
				return err
			}
			runs, err := readRuns(cmd.Context(), &o, s)
			if err != nil {
				return err
			}
			if id == 0 {
				return printRuns(s.Out, runs, &o.Output, time.Now())
			}
			run, err := journal.Find(runs, id)
			if err != nil {
				return err
			}
			return o.Output.Write(s.Out, output.Line(run), func() error {
				printSteps(s.Out, run)
				return nil
			})
		},
	}
	o.DeclareFormats(cmd, output.Text, output.JSON, output.YAML)
	cmd.ValidArgsFunction = completion.Runs(o.Connect)
	return cmd
}

// readRuns reads the journal.
func readRuns(ctx context.Context, o *observer.Cluster, s workflow.Streams) ([]journal.Run, error) {
	client, err := o.Client(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, observer.Timeout)
	defer cancel()
	runs, err := journal.Read(ctx, client)
	return runs, observer.Asked(err)
}

// runID reads the number of a run, if there is an argument. Of a step, it says why the command takes the whole run.
func runID(args []string, why, command string) (int, error) {
	if len(args) == 0 {
		return 0, nil
	}
	run, step, _ := strings.Cut(args[0], ".")
	id, err := strconv.Atoi(run)
	if err != nil || id <= 0 {
		return 0, finding.Usagef("%q is not the number of a run", args[0]).WithHint("ccmadm journal lists them")
	}
	if step != "" {
		return 0, finding.Usagef("step %s: %s", args[0], why).WithHint("%s %s", command, run)
	}
	return id, nil
}

func printRuns(out io.Writer, runs []journal.Run, format *output.Format, now time.Time) error {
	return format.Write(out, output.Lines(runs), func() error { return tabulateRuns(out, runs, now) })
}

func tabulateRuns(out io.Writer, runs []journal.Run, now time.Time) error {
	w := table.New(out, "RUN", "COMMAND", "MACHINE", "STATE", "STEPS", "AGE", "TOOK")
	for i := range runs {
		r := &runs[i]
		w.Row(r.ID, r.Command, r.Machine, r.State, len(r.Steps), duration.HumanDuration(now.Sub(r.Began.Time)), took(r.Began, r.Ended))
	}
	return w.Flush()
}

func took(began metav1.Time, ended *metav1.Time) string {
	if ended == nil {
		return "-"
	}
	return ended.Sub(began.Time).String()
}

func printSteps(out io.Writer, r *journal.Run) {
	fmt.Fprintf(out, "Run %d: ccmadm %s on %s, version %s, %s\n", r.ID, r.Command, r.Machine, r.Version, r.State)
	if r.Line != "" {
		fmt.Fprintln(out, "Command: "+finding.Clean(r.Line))
	}
	fmt.Fprintf(out, "Began %s, took %s\n", r.Began.UTC().Format(time.RFC3339), took(r.Began, r.Ended))
	if r.Shortened {
		fmt.Fprintln(out, "The journal was full: only the steps that did not succeed were kept")
	}
	for i, step := range r.Steps {
		fmt.Fprintf(out, "\n%d.%d %s: %s\n", r.ID, i+1, step.Name, step.What)
		for _, line := range []struct{ name, text string }{
			{"node", step.Node},
			{"state", string(step.State)},
			{"took", took(step.Began, step.Ended)},
			{"error", step.Error},
			{"before", step.Before},
			{"after", step.After},
			{"change", step.Change},
			{"undo", step.Undo},
		} {
			if text := shownLines(line.text); text != "" {
				fmt.Fprintf(out, "  %-7s %s\n", line.name+":", text)
			}
		}
	}
	if r.State == journal.Begun {
		fmt.Fprintln(out, "\nIt has not ended: it is in progress, or was interrupted.")
	}
}

// shownLines sets several lines in. What a Node or a cloud has said does nothing to the terminal.
func shownLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = finding.Clean(lines[i])
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return "\n    " + strings.Join(lines, "\n    ")
}
