// Package contexts is `ccmadm status` for several contexts of a kubeconfig: a row for each cluster, asked side by side.
//
// Start at [Options.Ask], which asks, and [Select], which finds the contexts by name. row.go is a row, ask.go asks for it, why.go
// says why a cluster cannot be asked, certificates.go finds the certificate that ends first, show.go and page.go show rows.
//
// Reads: the version of each API server, its certificate, and what package doctor/nodes and the given doctor read. Writes: to the
// io.Writer that it is given.
// Running it twice: asks again.
// It will not: show something that could not be read as something that does not exist, or let one cluster delay another beyond
// its time limit.
package contexts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
)

// Options are how clusters are asked.
type Options struct {
	// Timeout is for each cluster, and not for all together.
	Timeout time.Duration
	// AtOnce is how many are asked at the same time.
	AtOnce int
	// Diagnose is the doctor for the cluster of a context, with what it has read. Nil: it is not asked.
	Diagnose func(ctx context.Context, name string, client kubernetes.Interface) (*diagnosis.Snapshot, *diagnosis.Diagnosis, error)
	// Explain gives an error of a cluster its text and its hint.
	Explain func(error) error
	// Kubeconfig is the file that --kubeconfig names, for commands that are shown; empty: it was not given.
	Kubeconfig string
}

// status is the command that shows one of the clusters.
func (o *Options) status(name string, flags ...string) string {
	words := append([]string{"ccmadm", "status"}, flags...)
	if o.Kubeconfig != "" {
		words = append(words, "--kubeconfig", o.Kubeconfig)
	}
	return machine.ShellQuote(append(words, "--context", finding.Clean(name))...)
}

// Context is one of a kubeconfig. Config is nil where Err says that there is no way to a cluster in it.
type Context struct {
	Name   string
	Config *rest.Config
	Err    error
}

// ErrNoContext is that a kubeconfig has no context of the name.
var ErrNoContext = errors.New("the kubeconfig has no context of this name")

// Select returns the contexts with these names, each once in the order given, or all by name. A name that the kubeconfig does not
// have is among them, with [ErrNoContext]. The error is for a kubeconfig without contexts, and for an empty name.
func Select(kubeconfig *api.Config, names []string, all bool, connect func(name string) (*rest.Config, error)) ([]Context, error) {
	if len(kubeconfig.Contexts) == 0 {
		return nil, finding.Usagef("read the kubeconfig: it has no contexts").
			WithHint("--kubeconfig names another file; KUBECONFIG may list several; kubectl config get-contexts shows them")
	}
	if all {
		names = slices.Sorted(maps.Keys(kubeconfig.Contexts))
	}
	var list []Context
	for _, name := range names {
		if name == "" {
			return nil, finding.Usagef("read --contexts: a name is empty").WithHint("--contexts a,b")
		}
		if slices.ContainsFunc(list, func(c Context) bool { return c.Name == name }) {
			continue
		}
		c := Context{Name: name, Err: ErrNoContext}
		if kubeconfig.Contexts[name] != nil {
			c.Config, c.Err = connect(name)
		}
		list = append(list, c)
	}
	return list, nil
}

// Ask asks each cluster, [Options.AtOnce] at a time, and returns their rows in the order of the contexts. A cluster takes at
// most Timeout and a second.
func (o *Options) Ask(ctx context.Context, list []Context) []Row {
	rows := make([]Row, len(list))
	var all errgroup.Group
	all.SetLimit(o.AtOnce)
	for i, c := range list {
		all.Go(func() error {
			rows[i] = o.bounded(ctx, c)
			return nil
		})
	}
	_ = all.Wait() // none returns an error
	return rows
}

// grace is for what ends with its context, but not at once.
const grace = time.Second

// bounded asks one cluster in the time for it. The question is left running where it does not end in time: a program that the
// kubeconfig names for credentials may hang.
func (o *Options) bounded(ctx context.Context, c Context) Row {
	began := time.Now()
	if c.Err != nil {
		return Row{Context: c.Name, Unasked: o.unasked(c.Err)}
	}
	asking, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	answer := make(chan Row, 1)
	go func() { answer <- o.ask(asking, c) }()
	var row Row
	select {
	case row = <-answer:
	case <-asking.Done():
		if ctx.Err() != nil { // the command is to end: what it was about to show is of no use
			return Row{Context: c.Name, Server: c.Config.Host, Unasked: &Unasked{Reason: Interrupted, Message: ctx.Err().Error()}}
		}
		select {
		case row = <-answer:
		case <-time.After(grace):
			row = Row{Context: c.Name, Server: c.Config.Host, Unasked: &Unasked{
				Reason: Timeout, Message: fmt.Sprintf("no answer within %s", o.Timeout),
				Next: "a program that the kubeconfig names for credentials may hang: " + o.status(c.Name, "-v", "6"),
			}}
		}
	}
	row.Seconds = time.Since(began).Round(10 * time.Millisecond).Seconds()
	return row
}

// Verdict is rows as an error: nil where every cluster could be asked and none of its Nodes, nor its leader, is missing. A name
// without a context is a wrong command line ([finding.ExitUsage]), a cluster that cannot be asked an error ([finding.ExitError]),
// and one that is not ready [finding.ExitNotInTime]; the first of these is the exit status.
func (o *Options) Verdict(rows []Row, kubeconfig *api.Config) error {
	var lines, hints []string
	code := finding.ExitDone
	worse := func(other finding.ExitCode) {
		order := []finding.ExitCode{finding.ExitDone, finding.ExitNotInTime, finding.ExitError, finding.ExitUsage}
		if slices.Index(order, other) > slices.Index(order, code) {
			code = other
		}
	}
	hint := func(text string) {
		if text != "" && !slices.Contains(hints, text) {
			hints = append(hints, text)
		}
	}
	for _, r := range rows {
		name := finding.Clean(r.Context)
		switch {
		case r.Unasked != nil && r.Unasked.Reason == NoContext:
			worse(finding.ExitUsage)
			lines = append(lines, fmt.Sprintf("read --contexts: the kubeconfig has no context %q", name))
			hint("contexts are " + strings.Join(cleaned(slices.Sorted(maps.Keys(kubeconfig.Contexts))), ", "))
		case r.Unasked != nil:
			worse(finding.ExitError)
			lines = append(lines, fmt.Sprintf("status: %s cannot be asked: %s: %s", name, r.Unasked.Reason, r.Unasked.Message))
			hint(r.Unasked.Next)
		case len(r.Wrong) > 0:
			worse(finding.ExitNotInTime)
			lines = append(lines, fmt.Sprintf("status: %s: %s", name, r.Wrong[0]))
			hint(o.status(r.Context) + " shows more")
		}
	}
	if code == finding.ExitDone {
		return nil
	}
	return (&finding.Error{Code: code, Err: errors.New(strings.Join(lines, "\n"))}).WithHint("%s", strings.Join(hints, "\n"))
}

func cleaned(names []string) []string {
	for i := range names {
		names[i] = finding.Clean(names[i])
	}
	return names
}
