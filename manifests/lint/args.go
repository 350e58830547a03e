package lint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

// arg is one flag of a command line.
type arg struct {
	name, value string
	list        string // the field of the container, command or args
	index       int    // in the list; -1 when it is a word of a shell script
	pair        bool   // the value is the next item
}

// readArgs reads the flags as pflag would; in a shell script, as well as can be told without a shell.
func readArgs(c corev1.Container) []arg {
	var args []arg
	for _, l := range []struct {
		name  string
		items []string
	}{{"command", c.Command}, {"args", c.Args}} {
		for i, item := range l.items {
			if strings.ContainsAny(item, " \n") && strings.Contains(item, "--") && !strings.HasPrefix(item, "--") {
				for word := range strings.FieldsSeq(item) {
					if name, value, ok := flag(word); ok {
						args = append(args, arg{name: name, value: value, list: l.name, index: -1})
					}
				}
				continue
			}
			name, value, ok := flag(item)
			if !ok {
				continue
			}
			a := arg{name: name, value: value, list: l.name, index: i}
			if !strings.Contains(item, "=") && i+1 < len(l.items) && !strings.HasPrefix(l.items[i+1], "-") {
				a.value, a.pair = l.items[i+1], true
			}
			args = append(args, a)
		}
	}
	return args
}

func flag(item string) (name, value string, ok bool) {
	name, ok = strings.CutPrefix(item, "--")
	if !ok {
		return "", "", false
	}
	name, value, hasValue := strings.Cut(name, "=")
	if !hasValue {
		value = "true"
	}
	return strings.ReplaceAll(name, "_", "-"), value, name != ""
}

// lookupArg returns the last of that name, which is the one that counts.
func lookupArg(args []arg, name string) (arg, bool) {
	for _, a := range slices.Backward(args) {
		if a.name == name {
			return a, true
		}
	}
	return arg{}, false
}

func (w *workload) arg(name string) (arg, bool) { return lookupArg(w.args, name) }

// is says whether the flag has that value.
func (w *workload) is(name, value string) bool {
	a, ok := w.arg(name)
	return ok && a.value == value
}

// argNode is where a flag stands; where it is missing, the container.
func (w *workload) argNode(name string) *yaml.Node {
	a, ok := w.arg(name)
	if !ok {
		return w.at(w.of()...)
	}
	return w.at(w.of(a.list, strconv.Itoa(max(0, a.index)))...)
}

// setArg returns a fix that makes the flag have the value.
func (w *workload) setArg(name, value string) func() error {
	return func() error {
		text := edit.ScalarNode(fmt.Sprintf("--%s=%s", name, value))
		a, ok, err := w.current(name)
		switch {
		case err != nil:
			return err
		case !ok:
			list := &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{text}}
			return w.doc.Insert(list, w.full(w.of("args")...)...)
		case a.pair:
			return w.doc.Set(edit.ScalarNode(value), w.full(w.of(a.list, strconv.Itoa(a.index+1))...)...)
		}
		return w.doc.Set(text, w.full(w.of(a.list, strconv.Itoa(a.index))...)...)
	}
}

// dropArg returns a fix that takes the flag away.
func (w *workload) dropArg(name string) func() error {
	return func() error {
		a, ok, err := w.current(name)
		if err != nil || !ok {
			return err
		}
		path := w.full(w.of(a.list)...)
		if a.pair {
			if err := w.doc.Remove(a.index+1, path...); err != nil {
				return err
			}
		}
		return w.doc.Remove(a.index, path...)
	}
}

// current finds the flag in the text as it is now: an earlier fix may have moved it.
func (w *workload) current(name string) (a arg, ok bool, err error) {
	var c corev1.Container
	for list, items := range map[string]*[]string{"command": &c.Command, "args": &c.Args} {
		if n := w.doc.At(w.full(w.of(list)...)); n != nil {
			for _, item := range n.Content {
				*items = append(*items, edit.Scalar(item))
			}
		}
	}
	if a, ok = lookupArg(readArgs(c), name); ok && a.index < 0 {
		err = fmt.Errorf("--%s is in a shell script", name)
	}
	return a, ok, err
}
