package kubeadm

import (
	"fmt"
	"maps"
	"slices"
)

// Differences names the fields that kubeadm's first half of init has used, and that another file has otherwise: all of
// the cluster's configuration and the kubelet's, and where the machine is and how it registers.
func (f *File) Differences(other *File) ([]string, error) {
	was, err := f.usedByFirstHalf()
	if err != nil {
		return nil, err
	}
	is, err := other.usedByFirstHalf()
	if err != nil {
		return nil, err
	}
	all := maps.Clone(was)
	maps.Copy(all, is)
	var list []string
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if was[field] != is[field] {
			list = append(list, fmt.Sprintf("%s %q: it was %q", field, is[field], was[field]))
		}
	}
	return list, nil
}

// usedByFirstHalf are fields by their paths, behind the kind of their document.
func (f *File) usedByFirstHalf() (map[string]string, error) {
	fields := map[string]string{}
	for _, d := range f.docs {
		if d.Root == nil {
			continue
		}
		value, err := d.Value()
		if err != nil {
			return nil, err
		}
		top, _ := value.(map[string]any)
		switch d.kind {
		case clusterConfigKind, "KubeletConfiguration":
			addFields(fields, d.kind, top)
		case RoleInit.kind():
			addFields(fields, d.kind+".localAPIEndpoint", top["localAPIEndpoint"])
			registration, _ := top["nodeRegistration"].(map[string]any)
			for _, key := range []string{"name", "criSocket", "kubeletExtraArgs"} {
				addFields(fields, d.kind+".nodeRegistration."+key, registration[key])
			}
		}
	}
	return fields, nil
}

// addFields adds what is below a path, each value as text.
func addFields(fields map[string]string, path string, value any) {
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for key, v := range value {
			addFields(fields, path+"."+key, v)
		}
	case []any:
		for i, v := range value {
			addFields(fields, fmt.Sprintf("%s[%d]", path, i), v)
		}
	default:
		fields[path] = fmt.Sprint(value)
	}
}
