// Command fences shows that the linter refuses the imports that CONTRIBUTING rules out, and no others.
//
//	go run ./test/fences go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@VERSION
//
// Start at [fences]. Reads .golangci.yml of the working directory. Writes that and a module of this one's name to a
// temporary directory, in which each package is one file with the imports in question, and runs the linter there. It
// says nothing about the repository's own files: the linter itself does.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/ccmadm/ccmadm"

// allFences are those of phases, the agent, images and commands, too.
func allFences() map[string][]string {
	all := fences()
	maps.Copy(all, phaseFences())
	maps.Copy(all, agentFences())
	maps.Copy(all, imageFences())
	maps.Copy(all, commandFences())
	return all
}

// fences are the files of the module, and what each imports: from below a folder of this module, or with a dot in its
// first part, from another, or Go's own text/template and net. A file whose name begins with bad is to be refused for every one of
// its imports, any other for none.
func fences() map[string][]string {
	return map[string][]string{
		"api/v1alpha1/good.go":                {"api/finding"},
		"api/v1alpha1/bad.go":                 {"api/config", "api/state", "templates", "manifests", "phases", "provider"},
		"api/config/good.go":                  {"api/v1alpha1", "api/finding", "api/redact"},
		"api/config/bad.go":                   {"api/state", "templates", "phases"},
		"api/state/good.go":                   {"api/v1alpha1", "api/config"},
		"api/finding/bad.go":                  {"kubeadm", "machine", "k8s.io/kubernetes/a", "k8s.io/cloud-provider/a"},
		"templates/good.go":                   {"api/v1alpha1"},
		"templates/bad.go":                    {"manifests", "phases", "provider", "doctor/nodes"},
		"manifests/good.go":                   {"api/v1alpha1", "templates"},
		"manifests/apply/good.go":             {"manifests"},
		"manifests/chart/good.go":             {"manifests", "templates", "api/minors"},
		"manifests/chart/bad.go":              {"phases", "doctor/nodes", "provider", "text/template"},
		"manifests/apply/bad.go":              {"phases", "doctor/nodes", "provider", "manifests/manifeststest"},
		"manifests/manifeststest/good.go":     {"templates"},
		"doctor/nodes/good.go":                {"api/finding", "templates"},
		"doctor/nodes/good_test.go":           {"manifests/manifeststest"},
		"doctor/nodes/bad.go":                 {"phases/workflow", "manifests", "provider", "k8s.io/kubernetes/a"},
		"doctor/diagnosis/bad.go":             {"html/template"},
		"doctor/host/good.go":                 {"machine", "kubeadm/identity"},
		"doctor/rehearsal/inpod/good.go":      {"manifests", "doctor/rehearsal"},
		"doctor/rehearsal/inpod/bad.go":       {"phases/workflow", "provider"},
		"machine/good.go":                     {"templates"},
		"machine/bad.go":                      {"kubeadm", "manifests", "doctor/nodes", "phases/workflow"},
		"kubeadm/good.go":                     {"machine", "manifests/edit", "k8s.io/kubernetes/a"},
		"kubeadm/bad.go":                      {"doctor/nodes", "phases/workflow", "provider/inventory"},
		"kubeadm/identity/sign.go":            {"k8s.io/kubernetes/a"},
		"kubeadm/identity/bad.go":             {"k8s.io/kubernetes/a", "provider"},
		"provider/good.go":                    {"api/v1alpha1", "provider/inventory", "k8s.io/cloud-provider/a"},
		"provider/good_test.go":               {"manifests/manifeststest"},
		"provider/bad.go":                     {"manifests", "phases", "kubeadm", "doctor/nodes", "templates"},
		"provider/nodes/bad.go":               {"manifests/apply", "provider/announce", "agent/vip"},
		"provider/inventory/bad.go":           {"manifests/apply", "k8s.io/kubernetes/a"},
		"provider/balancer/allocator/bad.go":  {"k8s.io/client-go/a", "provider/announce"},
		"provider/balancer/evaluation/bad.go": {"k8s.io/client-go/a", "provider/announce"},
		"provider/announce/good.go":           {"api/v1alpha1", "provider/announce/quorum"},
		"provider/announce/bad.go":            {"provider/announce/l2", "provider/announce/bgp", "provider/nodes"},
		"provider/announce/quorum/good.go":    {"api/v1alpha1", "net/netip"},
		"provider/announce/quorum/bad.go":     {"net", "provider/announce", "provider/announce/l2", "provider/announce/bgp", "provider/nodes"},
		"provider/announce/l2/good.go":        {"api/v1alpha1", "provider/announce", "provider/announce/quorum", "provider/dump"},
		"provider/announce/l2/bad.go":         {"provider/announce/bgp", "provider/inventory", "manifests"},
		"provider/announce/bgp/good.go":       {"api/v1alpha1", "provider/announce"},
		"provider/announce/bgp/bad.go":        {"provider/announce/l2", "provider/announce/quorum", "provider/routes"},
		"test/lab/good.go":                    {"text/template"},
	}
}

// phaseFences are those of the library.
func phaseFences() map[string][]string {
	return map[string][]string{
		"phases/phases.go":             {"phases/bootstrap", "phases/manager", "phases/workflow"},
		"phases/bad.go":                {"agent", "provider", "provider/inventory", "k8s.io/kubernetes/a", "cmd/ccmadm"},
		"phases/settings/good.go":      {"machine", "templates"},
		"phases/settings/bad.go":       {"phases/workflow", "phases/journal"},
		"phases/workflow/phase.go":     {"phases/settings", "phases/journal", "kubeadm", "k8s.io/kubernetes/a"},
		"phases/workflow/bad.go":       {"phases/record", "phases/manager", "phases/adoption", "k8s.io/kubernetes/a"},
		"phases/record/good.go":        {"phases/workflow"},
		"phases/record/bad.go":         {"phases/kubelet", "phases/manager", "phases/upgrade"},
		"phases/kubelet/good.go":       {"phases/record"},
		"phases/kubelet/bad.go":        {"phases/fleet", "phases/manager", "phases/bootstrap"},
		"phases/fleet/good.go":         {"phases/kubelet"},
		"phases/fleet/bad.go":          {"phases/manager", "phases/adoption", "phases/upgrade"},
		"phases/manager/good.go":       {"phases/record", "phases/upgrade/planner"},
		"phases/manager/bad.go":        {"phases/bootstrap", "phases/adoption", "phases/upgrade", "phases/phasestest"},
		"phases/bootstrap/good.go":     {"phases/manager", "phases/kubelet"},
		"phases/bootstrap/bad.go":      {"phases/adoption", "phases/upgrade", "phases"},
		"phases/adoption/good.go":      {"phases/manager", "phases/fleet", "phases/rollback"},
		"phases/adoption/good_test.go": {"phases/phasestest", "phases/existingtest"},
		"phases/adoption/bad.go":       {"phases/bootstrap", "phases/upgrade", "phases", "phases/existingtest"},
		"phases/upgrade/good.go":       {"phases/upgrade/planner", "phases/fleet"},
		"phases/upgrade/bad.go":        {"phases/bootstrap", "phases/adoption", "phases"},
		"phases/rollback/good.go":      {"phases/workflow", "phases/journal", "phases/upgrade/planner"},
		"phases/rollback/bad.go":       {"phases/record", "phases/manager", "phases/adoption", "phases/upgrade"},
		"phases/another/good.go":       {"phases/manager", "phases/fleet", "phases/rollback"}, // an operation that there is not yet
		"phases/another/good_test.go":  {"phases/phasestest", "phases/existingtest"},
		"phases/another/bad.go":        {"phases/bootstrap", "phases/adoption", "phases/upgrade", "phases", "phases/phasestest"},
		"phases/journal/bad.go":        {"phases/workflow"},
		"phases/phasestest/good.go":    {"phases/record", "manifests/manifeststest"},
	}
}

// commandFences are those of programs.
func commandFences() map[string][]string {
	return map[string][]string{
		"cmd/ccmadm/good.go":                   {"phases", "provider", "manifests", "doctor/nodes", "templates"},
		"cmd/ccmadm/bad.go":                    {"provider/announce", "provider/announce/quorum", "agent", "k8s.io/kubernetes/a", "k8s.io/cloud-provider/a"},
		"cmd/cloud-controller-manager/good.go": {"provider", "k8s.io/cloud-provider/a"},
		"cmd/cloud-controller-manager/bad.go":  {"provider/announce", "agent/vip"},
		"cmd/node-agent/good.go":               {"agent", "agent/vip", "api/v1alpha1"},
		"cmd/node-agent/bad.go":                {"text/template", "provider/announce", "provider/announce/l2", "provider/objects", "manifests"},
		"cmd/ccmadm/completion/good.go":        {"doctor/nodes", "phases/journal", "templates"},
		"cmd/ccmadm/completion/bad.go":         {"agent", "provider/announce", "k8s.io/kubernetes/a"},
		"cmd/ccmadm/contexts/good.go":          {"doctor/nodes", "doctor/diagnosis", "doctor/page", "phases/workflow"},
		"cmd/ccmadm/contexts/bad.go":           {"agent", "provider/announce", "k8s.io/kubernetes/a"},
		"cmd/ccmadm/explain/good.go":           {"api/finding", "manifests", "cmd/ccmadm/output"},
		"cmd/ccmadm/explain/bad.go":            {"agent", "provider/announce", "k8s.io/kubernetes/a"},
		"cmd/ccmadm/output/good.go":            {"api/finding"},
		"cmd/ccmadm/output/bad.go":             {"agent", "provider/announce", "k8s.io/kubernetes/a"},
		"cmd/ccmadm/doctor/good.go":            {"doctor/diagnosis", "doctor/host", "manifests/lint", "phases/journal", "cmd/ccmadm/observer"},
		"cmd/ccmadm/doctor/bad.go":             {"agent", "provider/announce", "k8s.io/kubernetes/a"},
		"cmd/ccmadm/lb/good.go":                {"doctor/network", "machine", "cmd/ccmadm/lbmove", "cmd/ccmadm/observer"},
		"cmd/ccmadm/lb/bad.go":                 {"agent", "provider/announce", "k8s.io/kubernetes/a"},
		"cmd/ccmadm/lint/good.go":              {"kubeadm", "manifests/lint", "cmd/ccmadm/explain"},
		"cmd/ccmadm/lint/bad.go":               {"agent", "provider/announce", "k8s.io/kubernetes/a"},
		"cmd/ccmadm/machines/good.go":          {"provider/inventory", "provider/nodes", "templates", "cmd/ccmadm/observer"},
		"cmd/ccmadm/machines/bad.go":           {"agent", "provider/announce", "k8s.io/kubernetes/a"},
		"cmd/ccmadm/observer/good.go":          {"doctor/network", "kubeadm/identity", "phases/workflow", "cmd/ccmadm/usage"},
		"cmd/ccmadm/observer/bad.go":           {"agent", "provider/announce", "k8s.io/kubernetes/a"},
		"cmd/ccmadm/providers/good.go":         {"templates", "phases/settings", "machine"},
		"cmd/ccmadm/providers/bad.go":          {"agent", "provider/announce", "k8s.io/kubernetes/a"},
		"cmd/ccmadm/rehearse/good.go":          {"doctor/rehearsal", "phases/manager", "cmd/ccmadm/providers"},
		"cmd/ccmadm/rehearse/bad.go":           {"agent", "provider/announce", "k8s.io/kubernetes/a"},
		"cmd/ccmadm/status/good.go":            {"doctor/nodes", "kubeadm/identity", "cmd/ccmadm/doctor"},
		"cmd/ccmadm/status/bad.go":             {"agent", "provider/announce", "k8s.io/kubernetes/a"},
		"cmd/ccmadm/usage/good.go":             {"api/finding"},
		"cmd/ccmadm/usage/bad.go":              {"agent", "provider/announce", "k8s.io/kubernetes/a"},
	}
}

// agentFences are those of what runs on each Node.
func agentFences() map[string][]string {
	return map[string][]string{
		"agent/good.go":                  {"agent/vip", "agent/metrics", "provider/announce", "provider/routes", "api/v1alpha1"},
		"agent/good_test.go":             {"manifests/apply", "manifests/manifeststest"},
		"agent/bad.go":                   {"manifests", "phases", "doctor/nodes", "machine", "templates"},
		"agent/vip/good.go":              {"provider/changes", "provider/dump", "agent/metrics", "provider/announce", "api/v1alpha1"},
		"agent/vip/bad.go":               {"agent", "provider/objects", "provider/routes", "manifests"},
		"provider/changes/bad.go":        {"agent/metrics", "api/v1alpha1", "provider/announce"},
		"provider/dump/bad.go":           {"agent/metrics", "api/v1alpha1", "provider/announce"},
		"agent/metrics/bad.go":           {"provider/changes", "agent/vip", "api/v1alpha1", "provider/announce"},
		"provider/announce/hook/good.go": {"api/v1alpha1", "provider/announce", "provider/endpoint"},
		"provider/endpoint/good.go":      {"api/finding"},
		"provider/endpoint/bad.go":       {"api/v1alpha1", "provider/announce", "provider/objects", "agent/metrics"},
		"provider/announce/hook/bad.go":  {"provider/announce/l2", "provider/announce/bgp", "provider/announce/quorum", "provider/nodes"},
	}
}

// imageFences are those of what carries container images.
func imageFences() map[string][]string {
	return map[string][]string{
		"images/good.go": {"machine", "api/finding"},
		"images/bad.go":  {"templates", "manifests", "phases/workflow", "provider", "doctor/nodes"},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fences:", err)
		os.Exit(1)
	}
}

// run compares what the linter refuses with what it should.
func run(ctx context.Context, out io.Writer, linter []string) error {
	config, err := os.ReadFile(".golangci.yml")
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "ccmadm-fences-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	dir := filepath.Join(tmp, checkout)
	if err := writeModule(dir, config); err != nil {
		return fmt.Errorf("write a module to lint: %w", err)
	}
	got, err := lint(ctx, dir, append(linter, "run", "--enable-only", "depguard",
		"--output.json.path", "stdout", "--path-mode", "abs", "--show-stats=false", "--issues-exit-code=0", "./..."))
	if err != nil {
		return err
	}
	want := 0
	var wrong []string
	for file, imports := range allFences() {
		bad := strings.HasPrefix(filepath.Base(file), "bad")
		for _, path := range imports {
			refusal := file + " imports " + importPath(path)
			switch refused := got[refusal]; {
			case bad && !refused:
				wrong = append(wrong, refusal+": allowed, want refused")
			case !bad && refused:
				wrong = append(wrong, refusal+": refused, want allowed")
			case bad:
				want++
			}
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		return fmt.Errorf("the linter disagrees with test/fences:\n  %s", strings.Join(wrong, "\n  "))
	}
	fmt.Fprintf(out, "%d imports that would climb a fence were refused\n", want)
	return nil
}

// checkout is a folder that has the names of ours in its path: the fences are about folders of the module only.
const checkout = "api/templates/manifests/doctor/provider/phases"

// writeModule makes a package of every folder. Packages that only others import are made, too, and so are the modules
// of Kubernetes, with one empty package each.
func writeModule(dir string, config []byte) error {
	mod := []string{"module " + module, "go 1.26.0"}
	files := map[string]string{".golangci.yml": string(config)}
	for file, imports := range allFences() {
		var text strings.Builder
		text.WriteString("package p\n")
		for _, path := range imports {
			fmt.Fprintf(&text, "import _ %q\n", importPath(path))
			if importPath(path) != path {
				files[path+"/x/p.go"] = "package p\n"
			}
		}
		files[file] = text.String()
	}
	for _, other := range []string{"k8s.io/kubernetes", "k8s.io/cloud-provider", "k8s.io/client-go"} {
		mod = append(mod, "require "+other+" v0.0.0", "replace "+other+" => ./"+other)
		files[other+"/go.mod"] = "module " + other + "\n\ngo 1.26.0\n"
		files[other+"/a/p.go"] = "package p\n"
	}
	files["go.mod"] = strings.Join(mod, "\n") + "\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// lint returns what was refused, as "FILE imports PATH".
func lint(ctx context.Context, dir string, command []string) (map[string]bool, error) {
	cache, err := os.MkdirTemp("", "ccmadm-fences-cache-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(cache) }()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	// Not the user's cache: it knows packages by their content, and files by where they were the first time.
	cmd.Env = append(os.Environ(), "GOLANGCI_LINT_CACHE="+cache)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
	}
	var report struct {
		Issues []struct {
			FromLinter, Text string
			Pos              struct{ Filename string }
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, fmt.Errorf("read the linter's report: %w\n%s", err, out)
	}
	refused := map[string]bool{}
	for _, issue := range report.Issues {
		parts := strings.SplitN(issue.Text, "'", 3) // import 'PATH' is not allowed from list ...
		if issue.FromLinter != "depguard" || len(parts) != 3 {
			return nil, fmt.Errorf("the linter says of %s: %s", issue.Pos.Filename, issue.Text)
		}
		file, err := filepath.Rel(dir, issue.Pos.Filename)
		if err != nil {
			return nil, err
		}
		refused[file+" imports "+parts[1]] = true
	}
	return refused, nil
}

func importPath(short string) string {
	first, last, _ := strings.Cut(short, "/")
	if strings.Contains(first, ".") || last == "template" || first == "net" {
		return short
	}
	return module + "/" + short + "/x" // a package without imports, so that there are no circles
}
