package kubeadm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/manifests/edit"
)

// patchName follows parseFilename of k8s.io/kubernetes/cmd/kubeadm/app/util/patches: TARGET[SUFFIX][+TYPE].EXTENSION, where
// a name only has to begin with a target.
var patchName = regexp.MustCompile(`^([^.+]*)(\+)?(json|merge|strategic)?`)

// isPatchFile reports whether kubeadm looks at the file at all.
func isPatchFile(name string) bool {
	return slices.Contains([]string{".json", ".yaml"}, filepath.Ext(name))
}

// IsPatch reports whether a file of that name and content is a patch for kubeadm, and no manifest: static pods have the
// same names.
func IsPatch(path string, data []byte) bool {
	name := filepath.Base(path)
	if !isPatchFile(name) || minors.Load().PatchTarget(name) == "" {
		return false
	}
	if strings.Contains(name, "+") {
		return true
	}
	docs, err := edit.Split(path, string(data))
	return err == nil && !slices.ContainsFunc(docs, func(d *edit.Document) bool {
		return d.Parse() == nil && edit.Scalar(edit.Lookup(d.Root, "kind")) != ""
	})
}

// LintPatch judges a patch file by its name, its form, and the arguments and feature gates that it gives a component.
func LintPatch(path string, data []byte, of PatchedMinors) []finding.Finding {
	list := patchNamed(path, of.Kubeadm)
	if len(list) > 0 || len(data) == 0 || !isPatchFile(path) { // kubeadm passes over an empty one, and over others
		return list
	}
	name := filepath.Base(path)
	kind, want := yaml.MappingNode, "a mapping with the fields to change"
	if patchName.FindStringSubmatch(name)[3] == "json" {
		kind, want = yaml.SequenceNode, "a list of operations"
	}
	if list = patchForm(path, data, kind, want); len(list) > 0 {
		return list
	}
	return lintPatchUses(path, data, minors.Load().PatchTarget(name), of)
}

// patchNamed says why kubeadm of a minor version ignores a file by its name, or ends with it. Of a minor that is not known
// nothing is said.
func patchNamed(path, minor string) []finding.Finding {
	name, history := filepath.Base(path), minors.Load()
	table, known := history.Of(minor)
	if !known || !isPatchFile(name) {
		return nil
	}
	add := func(message string) []finding.Finding {
		f := finding.PatchFile.New("", message)
		f.File, f.Line, f.Column = path, 1, 1
		return []finding.Finding{f}
	}
	if !slices.ContainsFunc(table.Kubeadm.Patches, func(target string) bool { return strings.HasPrefix(name, target) }) {
		if target := history.PatchTarget(name); target != "" {
			since, _ := history.PatchTargetSince(target)
			return add(fmt.Sprintf("kubeadm %s does not know the patch target %s, which is known since %s, and ignores the file",
				minor, target, since))
		}
		return add(fmt.Sprintf("kubeadm %s ignores the file: its name begins with no patch target (%s)",
			minor, strings.Join(table.Kubeadm.Patches, ", ")))
	}
	if match := patchName.FindStringSubmatch(name); match[2] != "" && match[3] == "" {
		return add("kubeadm refuses the file: after + its name has none of json, merge and strategic")
	}
	return nil
}

// patchForm refuses documents that are nothing a patch of the type can be.
func patchForm(path string, data []byte, kind yaml.Kind, want string) []finding.Finding {
	docs, err := edit.Split(path, string(data))
	var list []finding.Finding
	add := func(line int, message string) {
		f := finding.PatchFile.New("", message)
		f.File, f.Line, f.Column = path, line, 1
		list = append(list, f)
	}
	if err != nil {
		add(1, err.Error())
	}
	for _, d := range docs {
		switch err := d.Parse(); {
		case err != nil:
			add(d.Line, err.Error())
		case d.Root != nil && d.Root.Kind != kind:
			add(d.LineOf(d.Root), "kubeadm cannot apply it: want "+want)
		}
	}
	return list
}

// LintPatches judges a directory of patches as kubeadm reads it: with the directories below it. The error is that the directory cannot
// be read.
func LintPatches(dir string, of PatchedMinors) ([]finding.Finding, error) {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		if err == nil {
			err = errors.New("not a directory, which kubeadm refuses") // a link to one, too
		}
		return nil, fmt.Errorf("read patches %s: %w", dir, err)
	}
	var list []finding.Finding
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !isPatchFile(path) {
			return err
		}
		data, err := os.ReadFile(path)
		list = append(list, LintPatch(path, data, of)...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read patches %s: %w", dir, err)
	}
	return list, nil
}

// RefusePatches joins the errors among findings about patches; nil: there is none.
func RefusePatches(found []finding.Finding) error {
	var wrong []error
	for _, f := range found {
		if f.Severity != finding.SeverityError {
			continue
		}
		wrong = append(wrong, fmt.Errorf("%s: %s", finding.Clean(f.File), finding.Clean(f.Message)))
	}
	return errors.Join(wrong...)
}

// PatchesOf is the directory of patches of a machine that makes a cluster or joins one; empty: none.
func (f *File) PatchesOf(role Role) string { return f.text(role.kind(), "patches", "directory") }
