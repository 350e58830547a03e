package templates

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Arg is one flag of a container's command line.
type Arg struct {
	Name, Value string
	// List is the field of the container, command or args.
	List string
	// Index is its place in the list; -1 when it is a word of a shell script.
	Index int
	// Pair says that the value is the next item.
	Pair bool
}

// ReadArgs reads the flags as pflag would; in a shell script, as well as can be told without a shell.
func ReadArgs(c corev1.Container) []Arg {
	var args []Arg
	for _, l := range []struct {
		name  string
		items []string
	}{{"command", c.Command}, {"args", c.Args}} {
		for i, item := range l.items {
			if strings.ContainsAny(item, " \n") && strings.Contains(item, "--") && !strings.HasPrefix(item, "--") {
				for word := range strings.FieldsSeq(item) {
					if name, value, ok := splitFlag(word); ok {
						args = append(args, Arg{Name: name, Value: value, List: l.name, Index: -1})
					}
				}
				continue
			}
			name, value, ok := splitFlag(item)
			if !ok {
				continue
			}
			a := Arg{Name: name, Value: value, List: l.name, Index: i}
			if !strings.Contains(item, "=") && i+1 < len(l.items) && !strings.HasPrefix(l.items[i+1], "-") {
				a.Value, a.Pair = l.items[i+1], true
			}
			args = append(args, a)
		}
	}
	return args
}

// OwnContainer is the container of a component's pod that has the component's name, as kubeadm gives it, or else the first: a strategic
// merge patch puts others before it. It is nil where there is no container.
func OwnContainer(pod *corev1.PodSpec, component string) *corev1.Container {
	if len(pod.Containers) == 0 {
		return nil
	}
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == component })
	return &pod.Containers[max(i, 0)]
}

func splitFlag(item string) (name, value string, ok bool) {
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

// LookupArg returns the last of that name, which is the one that counts. Of flags that add to what they had, as --controllers and
// --feature-gates, all do.
func LookupArg(args []Arg, name string) (Arg, bool) {
	for _, a := range slices.Backward(args) {
		if a.Name == name {
			return a, true
		}
	}
	return Arg{}, false
}
