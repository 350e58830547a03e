package lint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"
	k8sversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/manifests/lint"
)

// input is one file. It may have both a configuration and manifests.
type input struct {
	path          string
	before, after []byte
	configuration bool
	manifests     bool
	patch         bool // of kubeadm's
}

// readInputs reads what can be read; the errors are about the rest.
func readInputs(paths []string, stdin io.Reader) (inputs []*input, errs []error) {
	take := func(path string, data []byte, err error) {
		i := &input{path: path, before: data, after: data}
		if err == nil {
			err = i.parse()
		}
		if err != nil {
			errs = append(errs, err)
			return
		}
		inputs = append(inputs, i)
	}
	for _, path := range paths {
		if path == "-" {
			data, err := io.ReadAll(stdin)
			take(path, data, err)
			continue
		}
		files, err := manifestFiles(path)
		if err != nil {
			errs = append(errs, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			take(file, data, err)
		}
	}
	return inputs, errs
}

// parse tells what the file is, and fails where it is nothing that can be read.
func (i *input) parse() error {
	if len(bytes.TrimSpace(i.before)) == 0 {
		return fmt.Errorf("%s: the file is empty", i.path)
	}
	if i.patch = kubeadm.IsPatch(i.path, i.before); i.patch {
		return nil
	}
	var other bool
	i.configuration, other = kubeadm.Holds(i.before)
	i.manifests = other || !i.configuration
	var errs []error
	if i.configuration {
		_, err := kubeadm.ParseMixed(i.path, i.before)
		errs = append(errs, err)
	}
	if i.manifests {
		_, err := lint.Parse(i.path, i.before)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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

// replace writes the file, if it has changed, and keeps what was there, unless Git does.
func (i *input) replace() error {
	if bytes.Equal(i.before, i.after) {
		return nil
	}
	info, err := os.Stat(i.path)
	if err != nil {
		return err
	}
	if !inGit(i.path) {
		if err := renameio.WriteFile(i.path+".bak", i.before, info.Mode().Perm(), renameio.IgnoreUmask()); err != nil {
			return fmt.Errorf("keep %s: %w", i.path, err)
		}
	}
	if err := renameio.WriteFile(i.path, i.after, info.Mode().Perm(), renameio.IgnoreUmask()); err != nil {
		return fmt.Errorf("write %s: %w", i.path, err)
	}
	return nil
}

// inGit tells whether a file is in a Git work tree.
func inGit(path string) bool {
	dir, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	for dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
	}
	return false
}

// check checks all inputs together.
type check struct {
	inputs []*input
	// minor is that of inputs that name none: joining machines and patches have no version of their own. If it was asked for, of all.
	minor int
	asked bool
	// skipped, objects and workloads are of the last check.
	skipped            []string
	objects, workloads int
}

// newCheck is for a minor version, or, where it is 0, for those that the inputs name.
func newCheck(inputs []*input, minor int) *check {
	c := &check{inputs: inputs, minor: minor, asked: minor != 0}
	if !c.asked {
		c.minor = cmp.Or(commonMinor(inputs), int(k8sversion.MustParseGeneric(minors.Newest()).Minor()))
	}
	return c
}

// commonMinor is the one that all inputs with a version name; 0: there is none.
func commonMinor(inputs []*input) int {
	common := 0
	for _, i := range inputs {
		if i.patch {
			continue
		}
		f, err := kubeadm.ParseMixed(i.path, i.after) // Cluster API may have versions in other files than kubeadm's configuration
		if err != nil {
			continue
		}
		for _, minor := range f.Minors() {
			if common != 0 && minor != common {
				return 0
			}
			common = minor
		}
	}
	return common
}

// minorOf is the minor version that a configuration is for.
func (c *check) minorOf(f *kubeadm.File) int {
	if minor, known := f.Minor(); known && !c.asked {
		return minor
	}
	return c.minor
}

// check looks at the inputs as they are now. The error is about objects that cannot be read.
func (c *check) check() ([]finding.Finding, error) {
	set, err := c.set()
	if err != nil {
		return nil, err
	}
	findings, err := set.Check()
	c.skipped = set.Passed
	c.objects, c.workloads = set.Objects()
	for _, i := range c.inputs {
		if i.patch {
			minor := fmt.Sprintf("1.%d", c.minor)
			findings = append(findings, kubeadm.LintPatch(i.path, i.after, kubeadm.PatchedMinors{Kubeadm: minor, Components: minor})...)
			continue
		}
		if f, configErr := i.config(); configErr != nil {
			err = errors.Join(err, configErr)
		} else if f != nil {
			findings = append(findings, f.Lint(c.minorOf(f))...)
		}
		findings = append(findings, kubeadm.LintNames(i.path, i.after)...)
	}
	finding.Sort(findings)
	return findings, err
}

func (c *check) set() (*lint.Set, error) {
	set := &lint.Set{Minor: c.minor}
	for _, i := range c.inputs {
		if !i.manifests {
			continue
		}
		f, err := lint.Parse(i.path, i.after)
		if err != nil {
			return nil, err
		}
		set.Files = append(set.Files, f)
	}
	return set, nil
}

// config is nil where the file has no configuration.
func (i *input) config() (*kubeadm.File, error) {
	if !i.configuration {
		return nil, nil
	}
	return kubeadm.ParseMixed(i.path, i.after)
}

// fix puts the fixed text into the inputs, manifests first, and returns what was fixed and what is left. Without keep
// it only finds out which fixes the text allows: nothing counts as fixed then, and what cannot be fixed says so.
func (c *check) fix(found []finding.Finding, keep bool) (fixed, left []finding.Finding) {
	refused := map[string]finding.Finding{}
	done := func(check func() ([]finding.Finding, error)) {
		ok, not, _ := lint.Fix(check) // what cannot be read is known from the check before
		fixed = append(fixed, ok...)
		for _, f := range not {
			refused[lint.Key(f)] = f
		}
	}
	if set, err := c.set(); err == nil {
		done(set.Check)
		at := 0
		for _, i := range c.inputs {
			if i.manifests {
				i.after = set.Files[at].Bytes()
				at++
			}
		}
	}
	for _, i := range c.inputs {
		if f, err := i.config(); err == nil && f != nil {
			done(func() ([]finding.Finding, error) { return f.Lint(c.minorOf(f)), nil })
			i.after = f.Bytes()
		}
	}
	finding.Sort(fixed)
	left = found
	if keep {
		left, _ = c.check()
	}
	for i, f := range left {
		if no, ok := refused[lint.Key(f)]; ok {
			left[i].Fix, left[i].Do = nil, no.Do
		}
	}
	return fixed, left
}
