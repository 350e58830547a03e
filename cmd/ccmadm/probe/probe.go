// Package probe is `ccmadm doctor --probe`: its flags, and the hidden command that runs in its pods.
//
// Start at [Flags]. The pods are of package doctor/probe/frompods, what they do of package doctor/probe.
//
// Reads and writes: what package frompods does; in a pod, the file of its answer.
// Running it twice: asks again.
// It will not: make a pod where --probe is not given.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/doctor/probe"
	"github.com/ccmadm/ccmadm/doctor/probe/frompods"
)

// mostAtOnce bounds the pods that are there at the same time, of which each is looked at again and again.
const mostAtOnce = 100

// Flags are those of the doctor about pods that ask from Nodes.
type Flags struct {
	// On says that pods are to ask.
	On      bool
	atOnce  int
	timeout time.Duration
	image   string
	left    error
}

// Left is the error of what Add could not delete; nil: nothing is left.
func (f *Flags) Left() error { return f.left }

// Declare adds the flags to a command. The image is that of the pods where no other is named.
func (f *Flags) Declare(cmd *cobra.Command, image string) {
	flags := cmd.Flags()
	flags.BoolVar(&f.On, "probe", false, "ask the network from each Node, by short-lived pods in kube-system")
	flags.IntVar(&f.atOnce, "probe-at-once", 5, "how many Nodes --probe asks at the same time, at most 100; each has two pods")
	flags.DurationVar(&f.timeout, "probe-timeout", 5*time.Minute, "time limit of --probe; Nodes that were not asked by then are listed")
	flags.StringVar(&f.image, "node-image", image, "image of the pods of --probe, whose entrypoint is ccmadm")
	for _, other := range []string{"from", "watch"} {
		cmd.MarkFlagsMutuallyExclusive("probe", other)
	}
	cmd.AddCommand(newTask())
}

// Check refuses values that have no meaning, and flags of --probe without it.
func (f *Flags) Check(cmd *cobra.Command) error {
	for _, name := range []string{"probe-at-once", "probe-timeout", "node-image"} {
		if cmd.Flags().Changed(name) && !f.On {
			return finding.Usagef("read --%s: it is for --probe", name)
		}
	}
	switch {
	case f.atOnce < 1 || f.atOnce > mostAtOnce:
		return finding.Usagef("read --probe-at-once: %d is no number from 1 to %d", f.atOnce, mostAtOnce)
	case f.timeout < time.Second:
		return finding.Usagef("read --probe-timeout: %s is less than a second", f.timeout)
	case strings.TrimSpace(f.image) == "":
		return finding.Usagef("read --node-image: it is empty")
	}
	return nil
}

// Add asks from the named Nodes, or from all, and adds the answers to a snapshot. That nothing could be asked is among what was not
// seen there. The error says that ctx has ended; say is told what is done, and what was left behind.
func (f *Flags) Add(ctx context.Context, client kubernetes.Interface, s *diagnosis.Snapshot, names []string, say func(string)) error {
	host, err := os.Hostname()
	if err != nil {
		host = "a machine without a name" // for people only
	}
	facts, err := frompods.Run(ctx, frompods.Options{
		Client: client, Image: f.image, AtOnce: f.atOnce, Timeout: f.timeout, Nodes: names, Progress: say,
		Holder: fmt.Sprintf("ccmadm doctor --probe on %s, process %d", host, os.Getpid()),
	})
	switch {
	case ctx.Err() != nil:
		return finding.Errorf("%w", errors.Join(err, context.Cause(ctx)))
	case facts == nil:
		say("nothing was asked from Nodes: " + withHint(err))
		s.NotSeen = append(s.NotSeen, diagnosis.Unseen(diagnosis.PartProbe, err))
		slices.SortStableFunc(s.NotSeen, func(a, b diagnosis.NotSeen) int { return strings.Compare(a.What, b.What) })
	case err != nil:
		say("warning: " + withHint(err))
		f.left = err
	}
	s.Probe = facts
	return nil
}

func withHint(err error) string {
	var known *finding.Error
	if errors.As(err, &known) && known.Hint != "" {
		return err.Error() + "; hint: " + known.Hint
	}
	return err.Error()
}

// newTask is what runs in a pod.
func newTask() *cobra.Command {
	var task, answer string
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "probe-task", Short: "Ask the network from a pod", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runTask(cmd.Context(), task, answer, limit) },
	}
	cmd.Flags().StringVar(&task, "task", "", "the task, as JSON")
	cmd.Flags().StringVar(&answer, "answer", "", "the file for the answer")
	cmd.Flags().DurationVar(&limit, "for", time.Minute, "time limit")
	return cmd
}

func runTask(ctx context.Context, text, file string, limit time.Duration) error {
	var t probe.Task
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields() // a task of another version, of which a part would be left undone
	if err := decoder.Decode(&t); err != nil {
		return finding.Usagef("read --task, of another version of ccmadm?: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := probe.Ask(ctx, &t)
	if err != nil {
		return finding.Errorf("%w", err)
	}
	data, err := answer.Encode()
	if err != nil {
		return finding.Errorf("%w", err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return finding.Errorf("write the answer: %w", err)
	}
	return nil
}
