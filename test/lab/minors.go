//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/minors"
)

func newMinors(p *places) *cobra.Command {
	return &cobra.Command{
		Use:   "minors [MINOR...]",
		Short: "Write api/minors/upstream: what the programs of each minor version say of their flags, gates and API",
		Long: `Compiles the components of each minor in its own module, and has them print what they register: minutes,
where the lab has never built that minor, seconds where it has.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := newBuilder(cmd.Context(), cmd.OutOrStdout(), p)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				args = minors.Known()
			}
			for _, minor := range args {
				if err := b.writeMinor(cmd.Context(), minor); err != nil {
					return fmt.Errorf("ask Kubernetes %s: %w", minor, err)
				}
			}
			return nil
		},
	}
}

// components are the programs whose flags are asked, with a file in the folder minor each.
func components() []string {
	return []string{"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet"}
}

func (b builder) writeMinor(ctx context.Context, name string) error {
	module := filepath.Join(b.source, "kubernetes-"+name)
	m := minors.Minor{Flags: map[string]map[string]minors.Flag{}, FeatureGates: map[string]minors.FeatureGate{}}
	var err error
	if m.Kubernetes, err = b.required(filepath.Base(module), "k8s.io/kubernetes"); err != nil {
		return err
	}
	if m.EtcdServer, err = b.required(filepath.Base(module), "go.etcd.io/etcd/server/v3"); err != nil {
		return err
	}
	if err := b.ask(ctx, module, &m.Kubeadm, "kubeadm"); err != nil {
		return err
	}
	known := map[string][]string{}
	for _, component := range components() {
		var said struct {
			Flags map[string]minors.Flag        `json:"flags"`
			Gates map[string]minors.FeatureGate `json:"gates"`
		}
		if err := b.ask(ctx, module, &said, "print", component); err != nil {
			return err
		}
		m.Flags[component] = said.Flags
		for gate, g := range said.Gates {
			first, ok := m.FeatureGates[gate]
			if ok && (first.Locked != g.Locked || g.Locked && first.Default != g.Default) {
				return fmt.Errorf("feature gate %s is locked in some components alone, for which the table has no place", gate)
			}
			if !ok {
				m.FeatureGates[gate] = g
			}
			known[gate] = append(known[gate], component)
		}
	}
	for gate, g := range m.FeatureGates {
		g.UnknownTo = slices.DeleteFunc(components(), func(c string) bool { return slices.Contains(known[gate], c) })
		m.FeatureGates[gate] = g
	}
	if m.Flags["etcd"], err = b.etcdFlags(ctx, module); err != nil {
		return err
	}
	data, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "[minors] %s: %d feature gates, flags of %s\n", m.Kubernetes, len(m.FeatureGates),
		strings.Join(slices.Sorted(maps.Keys(m.Flags)), ", "))
	data = append(data, '\n')
	file := filepath.Join(b.source, "../../api/minors/upstream", name+".json")
	if err := renameio.WriteFile(file, data, 0o644); err != nil {
		return err
	}
	var compressed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	_, _ = w.Write(data) // to memory
	_ = w.Close()
	text := base64.StdEncoding.EncodeToString(compressed.Bytes())
	return renameio.WriteFile(file+".gz.base64", []byte(text+"\n"), 0o644)
}

// ask runs a program of the folder minor in the module of a minor version, and reads what it prints.
func (b builder) ask(ctx context.Context, module string, into any, files ...string) error {
	args := []string{"run"}
	for _, f := range files {
		args = append(args, filepath.Join("..", "minor", f+".go"))
	}
	cmd := b.goCommand(ctx, module, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("read what %s printed: %w", files[len(files)-1], err)
	}
	return nil
}

// etcdFlags reads the names from etcd's source: its set of flags is private, and its --help leaves out old ones.
func (b builder) etcdFlags(ctx context.Context, module string) (map[string]minors.Flag, error) {
	cmd := b.goCommand(ctx, module, "list", "-m", "-f", "{{.Dir}}", "go.etcd.io/etcd/server/v3")
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	flags := map[string]minors.Flag{}
	for _, dir := range []string{"embed", "etcdmain"} {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), dir, "config*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if err := flagsIn(content, flags); err != nil {
				return nil, err
			}
		}
	}
	return flags, nil
}

// flagsIn adds the names of flags that a file declares on a set called fs.
func flagsIn(source []byte, names map[string]minors.Flag) error {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		at := 0 // fs.String("name", ...)
		if strings.HasSuffix(method.Sel.Name, "Var") {
			at = 1 // fs.StringVar(&place, "name", ...)
		}
		if set, ok := method.X.(*ast.Ident); !ok || set.Name != "fs" || len(call.Args) < at+2 {
			return true
		}
		if literal, ok := call.Args[at].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if name, err := strconv.Unquote(literal.Value); err == nil {
				names[name] = minors.Flag{}
			}
		}
		return true
	})
	return nil
}
