// Package lint is `ccmadm lint`: it reads files, has the rules look at all of them together, and fixes what has one right answer.
//
// Start at [NewCommand]. The rules are those of packages manifests/lint and kubeadm; files.go reads and writes files.
//
// Reads: the files and directories that are given, or standard input. Writes: with --fix these files, and FILE.bak beside them.
// Running it twice: the second time nothing is left to fix.
// It will not: ask a cluster.
package lint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"
	k8sversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/explain"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/manifests/lint"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// command is what the flags of lint say.
type command struct {
	paths   []string
	fix     bool
	diff    bool
	strict  bool
	verbose bool
	output  output.Format
	version string
	explain string
	release string
}

// NewCommand returns the command. The release of ccmadm is in SARIF.
func NewCommand(s workflow.Streams, release string) *cobra.Command {
	l := command{release: release}
	cmd := &cobra.Command{
		Use:   "lint FILE|DIRECTORY|-...",
		Short: "Check manifests and kubeadm configurations, and fix them",
		Long: `Checks manifests of a cloud-controller-manager, and configurations of kubeadm and of Cluster API, for mistakes that
block the bootstrap of a cluster, documents of kubeadm and ccmadm for unknown fields, and kubeadm's patches for targets that the version has. No cluster is needed. All files are
checked together: a permission may be granted in another file than the pod that needs it. Check a Helm chart as the output of
` + "`helm template`" + `.

Each finding has the ID of a rule, which ` + "`ccmadm explain ID`" + ` and docs/reference/lint.md explain. An error blocks a
bootstrap; a warning breaks something later, or elsewhere. A note is about what a later version of Kubernetes ends, and does not
change the exit status. --fix fixes findings with one right answer: in the file, where comments, order and anchors stay; with -,
on standard output. The previous content is kept beside the file as FILE.bak, unless it is in a Git work tree. --diff shows what
--fix would do, and changes nothing.

A file that cannot be read does not hide the findings of the others.` + usage.ExitStatuses(usage.Endings{
			finding.ExitDone:  "no errors; with --strict, no warnings either",
			finding.ExitError: "a file cannot be read, or there is nothing in it to check",
			finding.ExitUsage: "a file does not exist",
			finding.ExitFound: "there are findings",
		}),
		Example: `  ccmadm lint kubeadm.yaml
  helm template ccm vendor/ccm | ccmadm lint -
  ccmadm lint --fix manifests/`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := l.output.Check(); err != nil {
				return err
			}
			if l.explain != "" {
				fmt.Fprintf(s.Err, "ccmadm: note: ccmadm explain %s says the same\n", finding.Clean(l.explain))
				return explain.Show(s.Out, &l.output, l.explain, Rules())
			}
			l.paths = append(l.paths, args...)
			if len(l.paths) == 0 {
				return finding.Usagef("%s: want a file, a directory, or - for standard input", cmd.CommandPath()).
					WithHint("%s kubeadm.yaml", cmd.CommandPath())
			}
			return l.run(s)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&l.paths, "filename", "f", nil,
		"as an argument: file, directory (its .yaml, .yml and .json, with sub-directories), or - for standard input; may be repeated")
	flags.BoolVar(&l.fix, "fix", false, "fix findings that have one right answer")
	flags.BoolVar(&l.diff, "diff", false, "show what --fix would do, and change nothing")
	flags.BoolVar(&l.strict, "strict", false, "warnings count for the exit status as errors do")
	flags.BoolVarP(&l.verbose, "verbose", "v", false, "list skipped objects")
	l.output.Declare(cmd, output.Text, output.JSON, output.YAML, "sarif")
	flags.StringVar(&l.version, "kubernetes-version", "",
		"the version that kubeadm configurations are for (default: their kubernetesVersion, where it is known, or "+minors.Newest()+")")
	flags.StringVar(&l.explain, "explain", "", "as ccmadm explain does")
	_ = flags.MarkHidden("explain") // it is declared above
	cmd.MarkFlagsMutuallyExclusive("filename", "explain")
	cmd.MarkFlagsMutuallyExclusive("fix", "diff")
	return cmd
}

func (l *command) run(s workflow.Streams) error {
	minor, err := l.minor()
	if err != nil {
		return err
	}
	inputs, unread := readInputs(l.paths, s.In)
	c := newCheck(inputs, minor)
	left, err := c.check()
	unread = append(unread, err)
	var fixed []finding.Finding
	if fixable(left) {
		fixed, left = c.fix(left, l.fix)
	}
	switch {
	case l.fix:
		err = l.write(s, inputs, fixed)
	case l.diff:
		err = showDiff(s.Out, inputs)
	}
	if err != nil {
		return &finding.Error{Code: finding.ExitError, Err: err}
	}
	if l.verbose {
		for _, skipped := range c.skipped {
			fmt.Fprintf(s.Err, "[lint] skipped %s\n", skipped)
		}
	}
	if err := l.report(s, left); err != nil {
		return &finding.Error{Code: finding.ExitError, Err: err}
	}
	return l.verdict(s, c, left, errors.Join(unread...))
}

func fixable(findings []finding.Finding) bool {
	return slices.ContainsFunc(findings, func(f finding.Finding) bool { return f.Fix != nil })
}

// minor is that of the version, which may be older than those that ccmadm knows: rules have versions of their own.
// Without a version it is 0.
func (l *command) minor() (int, error) {
	if l.version == "" {
		return 0, nil
	}
	v, err := k8sversion.ParseSemantic(l.version)
	if err != nil {
		v, err = k8sversion.ParseSemantic(l.version + ".0")
	}
	if err != nil || v.Major() != 1 {
		return 0, finding.Usagef("--kubernetes-version %q: want 1.MINOR", l.version)
	}
	if newest := minors.Newest(); k8sversion.MustParseGeneric(newest).Minor() < v.Minor() {
		return 0, finding.Usagef("--kubernetes-version %q: this release of ccmadm knows Kubernetes up to %s", l.version, newest).
			WithHint("a newer release of ccmadm may know it")
	}
	return int(v.Minor()), nil
}

// write puts what has changed in place of the files, and says so.
func (l *command) write(s workflow.Streams, inputs []*input, fixed []finding.Finding) error {
	for _, f := range fixed {
		fmt.Fprintf(s.Err, "[lint] fixed %s:%d: %s %s: %s\n", f.File, f.Line, f.ID, f.Object, f.Message)
	}
	for _, i := range inputs {
		if i.path == "-" {
			if _, err := s.Out.Write(i.after); err != nil {
				return err
			}
		} else if err := i.replace(); err != nil {
			return err
		}
	}
	return nil
}

func showDiff(out io.Writer, inputs []*input) error {
	for _, i := range inputs {
		shown := redact.Text(string(diff.Diff(i.path, i.before, i.path+" (fixed)", i.after)))
		if _, err := io.WriteString(out, shown); err != nil {
			return err
		}
	}
	return nil
}

// report shows what is left. Where standard output has the fixed file or a diff, on standard error.
func (l *command) report(s workflow.Streams, left []finding.Finding) error {
	out := s.Out
	if l.fix && slices.Contains(l.paths, "-") || l.diff {
		out = s.Err
	}
	if l.output.Is("sarif") {
		return lint.WriteSARIF(out, l.release, Rules(), left)
	}
	return l.output.Write(out, output.Findings(left), func() error { return finding.WriteText(out, left) })
}

// Rules are the findings of lint.
func Rules() []finding.Kind { return slices.Concat(kubeadm.Rules(), lint.Rules()) }

// verdict is the exit status, and a word about files in which there was nothing to check.
func (l *command) verdict(s workflow.Streams, c *check, left []finding.Finding, unread error) error {
	configuration := slices.ContainsFunc(c.inputs, func(i *input) bool { return i.configuration || i.patch })
	if c.objects == 0 && !configuration && unread == nil {
		return &finding.Error{
			Code: finding.ExitError,
			Err:  errors.New("no manifest and no kubeadm configuration in " + strings.Join(l.paths, ", ")),
		}
	}
	if c.workloads == 0 && !configuration && unread == nil {
		fmt.Fprintln(s.Err, "[lint] no cloud-controller-manager in these manifests")
	}
	errorCount, warnings, fixable := 0, 0, 0
	for _, f := range left {
		switch f.Severity {
		case finding.SeverityError:
			errorCount++
		case finding.SeverityWarning:
			warnings++
		case finding.SeverityNote:
		}
		if f.Fixable() {
			fixable++
		}
	}
	summary := errors.New(finding.Count(errorCount, "error") + ", " + finding.Count(warnings, "warning"))
	failed := errorCount > 0 || l.strict && warnings > 0
	err := &finding.Error{Code: finding.ExitFound, Err: summary}
	switch {
	case unread != nil:
		err.Code, err.Err = finding.ExitError, unread
		if errors.Is(unread, fs.ErrNotExist) {
			err.Code = finding.ExitUsage
		}
		if failed {
			err.Err = errors.Join(unread, fmt.Errorf("%w in what could be read", summary))
		}
	case !failed:
		return nil
	}
	if fixable > 0 {
		err.Hint = fmt.Sprintf("--fix fixes %d of them", fixable)
	}
	return err
}
