package lint

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
	"github.com/ccmadm/ccmadm/templates"
)

func (w *workload) arg(name string) (templates.Arg, bool) { return templates.LookupArg(w.args, name) }

// is says whether the flag has that value.
func (w *workload) is(name, value string) bool {
	a, ok := w.arg(name)
	return ok && a.Value == value
}

// argNode is where a flag stands; where it is missing, the container.
func (w *workload) argNode(name string) *yaml.Node {
	a, ok := w.arg(name)
	if !ok {
		return w.at(w.of()...)
	}
	return w.nodeOf(a)
}

func (w *workload) nodeOf(a templates.Arg) *yaml.Node {
	return w.at(w.of(a.List, strconv.Itoa(max(0, a.Index)))...)
}

// setArg returns a fix that makes the flag have the value.
func (w *workload) setArg(name, value string) func() error {
	return func() error {
		a, ok, err := w.current(name)
		switch {
		case err != nil:
			return err
		case !ok:
			text := edit.ScalarNode(fmt.Sprintf("--%s=%s", name, value))
			list := &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{text}}
			return w.doc.Insert(list, w.full(w.of("args")...)...)
		}
		return w.put(a, value)
	}
}

// put gives an argument of the text another value.
func (w *workload) put(a templates.Arg, value string) error {
	switch {
	case a.Index < 0:
		return fmt.Errorf("--%s is in a shell script", a.Name)
	case a.Pair:
		return w.doc.Set(edit.ScalarNode(value), w.full(w.of(a.List, strconv.Itoa(a.Index+1))...)...)
	}
	return w.doc.Set(edit.ScalarNode(fmt.Sprintf("--%s=%s", a.Name, value)), w.full(w.of(a.List, strconv.Itoa(a.Index))...)...)
}

// dropArg returns a fix that takes the flag away, however often it is there.
func (w *workload) dropArg(name string) func() error {
	return func() error {
		for {
			a, ok, err := w.current(name)
			if err != nil || !ok {
				return err
			}
			path := w.full(w.of(a.List)...)
			if a.Pair {
				if err := w.doc.Remove(a.Index+1, path...); err != nil {
					return err
				}
			}
			if err := w.doc.Remove(a.Index, path...); err != nil {
				return err
			}
		}
	}
}

// current finds the flag in the text as it is now: an earlier fix may have moved it.
func (w *workload) current(name string) (a templates.Arg, ok bool, err error) {
	if a, ok = templates.LookupArg(w.currentArgs(), name); ok && a.Index < 0 {
		err = fmt.Errorf("--%s is in a shell script", name)
	}
	return a, ok, err
}

func (w *workload) currentArgs() []templates.Arg {
	var c corev1.Container
	for list, items := range map[string]*[]string{"command": &c.Command, "args": &c.Args} {
		if n := w.doc.At(w.full(w.of(list)...)); n != nil {
			for _, item := range n.Content {
				*items = append(*items, edit.Scalar(item))
			}
		}
	}
	return templates.ReadArgs(c)
}
