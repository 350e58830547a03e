package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/chart"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// writeKustomization never mixes with files that are there already.
func writeKustomization(s workflow.Streams, dir string, objects []*manifests.Object, pod []byte) error {
	if err := emptyDir(dir, "kustomize"); err != nil {
		return err
	}
	var names []string
	for _, o := range objects {
		data, err := encode(o)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if o.GetKind() == "Secret" {
			mode = 0o600
		}
		name := fileName(o)
		if err := writeOut(s, filepath.Join(dir, name), data, mode); err != nil {
			return err
		}
		names = append(names, name)
	}
	if pod != nil {
		if err := writeOut(s, filepath.Join(dir, "static-pod", filepath.Base(machine.CCMManifest)), pod, 0o600); err != nil {
			return err
		}
	}
	kustomization, err := yaml.Marshal(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": names,
	})
	if err != nil {
		return fmt.Errorf("encode the kustomization: %w", err)
	}
	return writeOut(s, filepath.Join(dir, "kustomization.yaml"), kustomization, 0o644)
}

// emptyDir refuses a directory that is not given, or has files.
func emptyDir(dir, output string) error {
	if dir == "" {
		return finding.Usagef("-o %s needs --output-dir", output)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return finding.Usagef("write to %s: it is not empty", dir)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return finding.Usagef("write to %s: %w", dir, err)
	}
	return nil
}

// writeChart writes the Helm chart. What render is told by other flags is a value of it.
func writeChart(s workflow.Streams, flags *pflag.FlagSet, dir string) error {
	if err := emptyDir(dir, "helm"); err != nil {
		return err
	}
	own := map[string]bool{"output": true, "output-dir": true}
	var other string
	flags.Visit(func(f *pflag.Flag) {
		if !own[f.Name] && other == "" {
			other = f.Name
		}
	})
	if other != "" {
		return finding.Usagef("render -o helm: --%s is a value of the chart, or not a part of it", other)
	}
	files, err := chart.Files(version)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeOut(s, filepath.Join(dir, name), files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fileName tells objects of one name in two namespaces apart.
func fileName(o *manifests.Object) string {
	name := strings.ToLower(o.GetKind()) + "-" + strings.ReplaceAll(o.GetName(), ":", "-")
	if ns := o.GetNamespace(); ns != "" && ns != v1alpha1.Namespace {
		name += "-" + ns
	}
	return name + ".yaml"
}

func writeOut(s workflow.Streams, path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := renameio.WriteFile(path, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err := fmt.Fprintln(s.Out, path)
	return err
}
