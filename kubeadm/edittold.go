package kubeadm

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

// EditTold has decide look at each argument of the control plane's components: its value becomes another one, or it
// goes. The edits are made from the last to the first. After an error the file is half edited and of no use.
func (f *File) EditTold(decide func(Told) (value string, stays bool)) error {
	for _, t := range slices.Backward(f.ToldComponents()) {
		value, stays := decide(t)
		if stays && value == t.Value {
			continue
		}
		if err := f.editTold(t, value, stays); err != nil {
			return fmt.Errorf("%sedit %s: %w", f.prefix(), t.Path, err)
		}
	}
	return nil
}

// editTold changes the last argument of that name and value.
func (f *File) editTold(t Told, value string, stays bool) error {
	path := argsPath(t.Component)
	args := extraArgs(f.value(clusterConfigKind, path...))
	for _, a := range slices.Backward(args) {
		if a.name != t.Name || a.value != t.Value {
			continue
		}
		d := f.document(clusterConfigKind)
		switch {
		case a.index < 0:
			return errors.New("it is merged by a YAML merge key: write the arguments out")
		case !stays:
			return d.Remove(a.index, path...)
		case d.apiVersion == v1beta3:
			return d.Set(edit.ScalarNode(value), append(path, edit.Scalar(a.key))...)
		default:
			return d.Set(edit.ScalarNode(value), append(path, strconv.Itoa(a.index), "value")...)
		}
	}
	return nil
}

// DropFeatureGates takes those of kubeadm's own feature gates away that are named.
func (f *File) DropFeatureGates(names ...string) error {
	for _, name := range names {
		i := slices.Index(f.FeatureGates(), name)
		if i < 0 {
			continue
		}
		if err := f.document(clusterConfigKind).Remove(i, "featureGates"); err != nil {
			return fmt.Errorf("%sremove featureGates.%s: %w", f.prefix(), name, err)
		}
	}
	return nil
}
