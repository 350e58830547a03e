package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/kubeadm"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/manifests/lint"
	"github.com/ccmadm/ccmadm/phases"
)

type linter struct {
	paths   []string
	fix     bool
	strict  bool
	verbose bool
	output  string
	version string
}

func newLint(s phases.Streams) *cobra.Command {
	var l linter
	cmd := &cobra.Command{
		Use:   "lint -f FILE|DIRECTORY|-",
		Short: "Find what blocks a bootstrap in manifests and kubeadm configurations, and fix it",
		Long: `Checks manifests of a cloud-controller-manager, and kubeadm configurations, for the mistakes that block the bootstrap of
a cluster. No cluster is asked. All files are looked at together: a permission may be granted in another file than the pod
that needs it. Helm charts are checked as what ` + "`helm template`" + ` prints.

Each finding has the ID of a rule, which docs/reference/lint.md explains. An error blocks a bootstrap; a warning breaks
something later, or elsewhere. With --fix, findings that have one right answer are fixed: in the file, where comments,
order and anchors stay and the previous content is kept beside it as FILE.bak; with -f -, on standard output.

Exit status: 0 without errors (--strict: without warnings too), 3 with findings, 2 usage, 1 where a file cannot be read.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return l.run(s) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&l.paths, "filename", "f", nil, "file, directory (its .yaml, .yml and .json, with sub-directories), or - for standard input; may be repeated")
	flags.BoolVar(&l.fix, "fix", false, "fix what has one right answer")
	flags.BoolVar(&l.strict, "strict", false, "warnings count for the exit status as errors do")
	flags.BoolVarP(&l.verbose, "verbose", "v", false, "say which objects were skipped")
	flags.StringVarP(&l.output, "output", "o", "text", "text, json or sarif (SARIF 2.1.0)")
	flags.StringVar(&l.version, "kubernetes-version", kubeadm.Newest, "the version that kubeadm configurations are for")
	_ = cmd.MarkFlagRequired("filename") // fails only for a flag that was not declared
	return cmd
}

// lintInput is one file; exactly one of kubeadm and manifests says what it is.
type lintInput struct {
	path      string
	before    []byte
	kubeadm   *kubeadm.File
	manifests *lint.File
}

func (i *lintInput) bytes() []byte {
	if i.kubeadm != nil {
		return i.kubeadm.Bytes()
	}
	return i.manifests.Bytes()
}

func (l *linter) run(s phases.Streams) error {
	minor, err := l.minor()
	if err != nil {
		return err
	}
	if !slices.Contains([]string{"text", "json", "sarif"}, l.output) {
		return usage("-o %q: want text, json or sarif", l.output)
	}
	inputs, err := l.read(s.In)
	if err != nil {
		return &finding.Error{Code: finding.ExitError, Err: err}
	}
	set, check := checker(inputs, minor)
	left, err := check()
	if err == nil && l.fix {
		var fixed []finding.Finding
		if fixed, left, err = lint.Fix(check); err == nil {
			err = l.write(s, inputs, fixed)
		}
	}
	if err != nil {
		return &finding.Error{Code: finding.ExitError, Err: err}
	}
	if l.verbose {
		for _, passed := range set.Passed {
			fmt.Fprintf(s.Err, "[lint] skipped %s\n", passed)
		}
	}
	if err := l.report(s, left); err != nil {
		return err
	}
	return l.verdict(s, inputs, set, left)
}

func (l *linter) minor() (int, error) {
	var major, minor int
	if _, err := fmt.Sscanf(strings.TrimPrefix(l.version, "v"), "%d.%d", &major, &minor); err != nil || major != 1 {
		return 0, usage("--kubernetes-version %q: want 1.MINOR", l.version)
	}
	return minor, nil
}

func checker(inputs []*lintInput, minor int) (*lint.Set, func() ([]finding.Finding, error)) {
	set := &lint.Set{}
	for _, i := range inputs {
		if i.manifests != nil {
			set.Files = append(set.Files, i.manifests)
		}
	}
	return set, func() ([]finding.Finding, error) {
		findings, err := set.Check()
		for _, i := range inputs {
			if i.kubeadm != nil {
				findings = append(findings, i.kubeadm.Lint(minor)...)
			}
		}
		finding.Sort(findings)
		return findings, err
	}
}

func (l *linter) read(stdin io.Reader) ([]*lintInput, error) {
	var inputs []*lintInput
	var errs []error
	for _, path := range l.paths {
		if path == "-" {
			data, err := io.ReadAll(stdin)
			inputs, errs = appendInput(inputs, errs, path, data, err)
			continue
		}
		files, err := manifestFiles(path)
		if err != nil {
			errs = append(errs, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			inputs, errs = appendInput(inputs, errs, file, data, err)
		}
	}
	return inputs, errors.Join(errs...)
}

func appendInput(inputs []*lintInput, errs []error, path string, data []byte, err error) ([]*lintInput, []error) {
	i := &lintInput{path: path, before: data}
	switch {
	case err != nil:
	case len(strings.TrimSpace(string(data))) == 0:
		err = fmt.Errorf("%s: the file is empty", path)
	case kubeadm.IsKubeadm(data):
		i.kubeadm, err = kubeadm.Parse(path, data)
	default:
		i.manifests, err = lint.Parse(path, data)
	}
	if err != nil {
		return inputs, append(errs, err)
	}
	return append(inputs, i), errs
}

// manifestFiles returns the file, or the manifests of a directory.
func manifestFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) && err == nil && !entry.IsDir() {
			files = append(files, name)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: no .yaml, .yml or .json in the directory", path)
	}
	return files, err
}

// write puts what has changed in place of the files, all or nothing of each, and says so.
func (l *linter) write(s phases.Streams, inputs []*lintInput, fixed []finding.Finding) error {
	for _, f := range fixed {
		fmt.Fprintf(s.Err, "[lint] fixed %s:%d: %s %s: %s\n", f.File, f.Line, f.ID, f.Object, f.Message)
	}
	for _, i := range inputs {
		after := i.bytes()
		if i.path == "-" {
			if _, err := s.Out.Write(after); err != nil {
				return err
			}
			continue
		}
		if string(after) == string(i.before) {
			continue
		}
		info, err := os.Stat(i.path)
		if err != nil {
			return err
		}
		if err := renameio.WriteFile(i.path+".bak", i.before, info.Mode().Perm(), renameio.IgnoreUmask()); err != nil {
			return fmt.Errorf("keep %s: %w", i.path, err)
		}
		if err := renameio.WriteFile(i.path, after, info.Mode().Perm(), renameio.IgnoreUmask()); err != nil {
			return fmt.Errorf("write %s: %w", i.path, err)
		}
	}
	return nil
}

// report shows what is left. Where standard output is the fixed file, on standard error.
func (l *linter) report(s phases.Streams, left []finding.Finding) error {
	out := s.Out
	if l.fix && slices.Contains(l.paths, "-") {
		out = s.Err
	}
	switch l.output {
	case "json":
		return finding.WriteJSON(out, left)
	case "sarif":
		return lint.WriteSARIF(out, version, lintRules(), left)
	}
	return finding.WriteText(out, left)
}

func lintRules() []finding.Kind { return slices.Concat(kubeadm.Rules(), lint.Rules()) }

// verdict is the exit status, and a word about files in which there was nothing to check.
func (l *linter) verdict(s phases.Streams, inputs []*lintInput, set *lint.Set, left []finding.Finding) error {
	kubeadm := slices.ContainsFunc(inputs, func(i *lintInput) bool { return i.kubeadm != nil })
	objects, workloads := set.Objects()
	if objects == 0 && !kubeadm {
		return &finding.Error{Code: finding.ExitError, Err: errors.New("no manifest and no kubeadm configuration in " + strings.Join(l.paths, ", "))}
	}
	if workloads == 0 && !kubeadm {
		fmt.Fprintln(s.Err, "[lint] no cloud-controller-manager in these manifests")
	}
	errorCount, fixable := 0, 0
	for _, f := range left {
		if f.Severity == finding.SeverityError {
			errorCount++
		}
		if f.Fixable() {
			fixable++
		}
	}
	if errorCount == 0 && (!l.strict || len(left) == 0) {
		return nil
	}
	err := &finding.Error{Code: finding.ExitPreflight, Err: fmt.Errorf("%d errors, %d warnings", errorCount, len(left)-errorCount)}
	if fixable > 0 {
		err.Hint = fmt.Sprintf("--fix fixes %d of them", fixable)
	}
	return err
}
