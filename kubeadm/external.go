package kubeadm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

// Change is one thing that SetExternal did.
type Change struct {
	// Line is where it stood in the user's file; 0 for what is new.
	Line int
	// Text says what was done and, if it takes something away, why.
	Text string
}

// String is the text.
func (c Change) String() string { return c.Text }

// cloudFlag is an argument of the time when the cloud providers were built in.
type cloudFlag struct {
	component []string // path of the component in its document
	name      string
	since     int // the minor version that made it wrong
	why       string
}

func cloudFlags(kind string) []cloudFlag {
	if kind != clusterConfigKind {
		kubelet := []string{"nodeRegistration", "kubeletExtraArgs"}
		return []cloudFlag{
			{kubelet, "cloud-config", 34, "kubelet 1.34 and newer refuse it"}, // kubernetes/kubernetes#130161
		}
	}
	apiServer, controllerManager := []string{"apiServer", "extraArgs"}, []string{"controllerManager", "extraArgs"}
	return []cloudFlag{
		{apiServer, "cloud-provider", 33, "kube-apiserver 1.33 and newer refuse it"}, // kubernetes/kubernetes#130162
		{apiServer, "cloud-config", 33, "kube-apiserver 1.33 and newer refuse it"},
		// kube-controller-manager skips all cloud controllers since the built-in providers are gone, whatever it is told.
		{controllerManager, "cloud-provider", 31, "it has no effect since Kubernetes 1.31"},
		{controllerManager, "cloud-config", 31, "it has no effect since Kubernetes 1.31"},
	}
}

// KubeletFlags are set beside cloud-provider=external, unless they are empty or the user has set them.
type KubeletFlags struct {
	NodeIP     string
	ProviderID string
}

// SetExternal puts this machine's kubelet into external cloud mode: cloud-provider=external and the given flags. It takes away what components of the Kubernetes version (1.kubernetesMinor) refuse or ignore. What
// the user set is kept; an argument that names another cloud provider is an error. A second call changes nothing.
// After an error the file is half edited and of no use.
func (f *File) SetExternal(role Role, flags KubeletFlags, kubernetesMinor int) ([]Change, error) {
	d, changes, err := f.ensure(role)
	if err != nil {
		return nil, err
	}
	if err := f.checkCloudProviders(role); err != nil {
		return nil, err
	}
	stale := f.staleFlags(role, kubernetesMinor)
	joined, err := f.joinEmpty()
	if err != nil {
		return nil, err
	}
	added, err := f.setKubeletArgs(role, d, flags)
	if err != nil {
		return nil, err
	}
	if err := f.dropAll(stale); err != nil {
		return nil, err
	}
	changes = append(changes, joined...)
	for _, s := range stale {
		changes = append(changes, Change{Line: s.line, Text: s.text})
	}
	return append(changes, added...), nil
}

// ensure returns the role's document, after making one for init if there is none.
func (f *File) ensure(role Role) (*document, []Change, error) {
	if d := f.document(role.kind()); d != nil {
		return d, nil, nil
	}
	if role == RoleJoin {
		return nil, nil, fmt.Errorf("%sno %s found in the supplied config", f.prefix(), role.kind())
	}
	if err := f.add(fmt.Sprintf("apiVersion: %s\nkind: %s\n", v1beta4, role.kind())); err != nil {
		return nil, nil, err
	}
	return f.document(role.kind()), []Change{{Text: "added an " + role.kind()}}, nil
}

func (f *File) prefix() string {
	if f.name == "" {
		return ""
	}
	return f.name + ": "
}

// checkCloudProviders refuses every cloud-provider argument that says something else than external: the user meant
// it, and no component of a supported version can do it.
func (f *File) checkCloudProviders(role Role) error {
	components := [][]string{{role.kind(), "nodeRegistration", "kubeletExtraArgs"}}
	if role == RoleInit {
		components = append(components, []string{clusterConfigKind, "apiServer", "extraArgs"}, []string{clusterConfigKind, "controllerManager", "extraArgs"})
	}
	var errs []error
	for i, c := range components {
		for _, a := range extraArgs(f.value(c[0], c[1:]...)) {
			if a.name != "cloud-provider" || a.value == "external" || a.value == "" && i > 0 {
				continue
			}
			do := "remove it or set it to external; Kubernetes 1.31 and newer have no built-in cloud providers"
			if c[1] == "apiServer" {
				do = "remove it: kube-apiserver 1.33 and newer have no such flag"
			}
			errs = append(errs, f.document(c[0]).Errorf(a.key, "%s.%s cloud-provider is %q: %s", c[1], c[2], a.value, do))
		}
	}
	return errors.Join(errs...)
}

// setKubeletArgs adds what the user has not set.
func (f *File) setKubeletArgs(role Role, d *document, flags KubeletFlags) ([]Change, error) {
	var args []extraArg
	for _, a := range []extraArg{{name: "cloud-provider", value: "external"}, {name: "node-ip", value: flags.NodeIP}, {name: "provider-id", value: flags.ProviderID}} {
		if _, ok := f.KubeletArg(role, a.name); !ok && a.value != "" {
			args = append(args, a)
		}
	}
	if len(args) == 0 {
		return nil, nil
	}
	path := []string{"nodeRegistration", "kubeletExtraArgs"}
	line := d.LineOf(d.Root)
	for n, i := d.Root, 0; i < len(path); i++ {
		if n = edit.Lookup(n, path[i]); n == nil {
			break
		}
		line = d.LineOf(n)
	}
	if err := d.Insert(argsNode(d.apiVersion, args), path...); err != nil {
		var shape *edit.ShapeError
		if errors.As(err, &shape) {
			err = fmt.Errorf("%w in %s", err, d.apiVersion)
		}
		return nil, fmt.Errorf("%s:%d: %w", f.name, line, err)
	}
	var changes []Change
	for _, a := range args {
		changes = append(changes, Change{Text: fmt.Sprintf("set nodeRegistration.kubeletExtraArgs %s=%s", a.name, a.value)})
	}
	return changes, nil
}

// argsNode is the shape of extra arguments in the version: a mapping in v1beta3, a list in v1beta4.
func argsNode(apiVersion string, args []extraArg) *yaml.Node {
	if apiVersion == v1beta3 {
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, a := range args {
			n.Content = append(n.Content, edit.ScalarNode(a.name), edit.ScalarNode(a.value))
		}
		return n
	}
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, a := range args {
		item := edit.MappingNode("name", edit.ScalarNode(a.name))
		item.Content = append(item.Content, edit.ScalarNode("value"), edit.ScalarNode(a.value))
		n.Content = append(n.Content, item)
	}
	return n
}

// staleFlag is a cloudFlag that the file has.
type staleFlag struct {
	cloudFlag
	kind string
	line int
	text string
}

// staleFlags lists them by line.
func (f *File) staleFlags(role Role, minor int) []staleFlag {
	kinds := []string{role.kind(), clusterConfigKind}
	if role == RoleJoin {
		kinds = kinds[:1] // kubeadm join does not read the other
	}
	var found []staleFlag
	for _, kind := range kinds {
		for _, flag := range cloudFlags(kind) {
			for _, a := range extraArgs(f.value(kind, flag.component...)) {
				if a.name != flag.name || minor < flag.since {
					continue
				}
				text := fmt.Sprintf("removed %s %s (%s)", strings.Join(flag.component, "."), flag.name, flag.why)
				if flag.name == "cloud-config" && f.value(kind, flag.component[0], "extraVolumes") != nil {
					text += "; " + flag.component[0] + ".extraVolumes stay as they are"
				}
				found = append(found, staleFlag{flag, kind, f.document(kind).LineOf(a.key), text})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b staleFlag) int { return cmp.Compare(a.line, b.line) })
	return found
}

// DropStale takes away what components of version 1.kubernetesMinor refuse or ignore. A second call changes nothing.
// After an error the file is half edited and of no use.
func (f *File) DropStale(kubernetesMinor int) ([]Change, error) {
	stale, changes := f.staleFlags(RoleInit, kubernetesMinor), []Change(nil)
	for _, s := range stale {
		changes = append(changes, Change{Line: s.line, Text: s.text})
	}
	return changes, f.dropAll(stale)
}

func (f *File) dropAll(stale []staleFlag) error {
	for _, s := range slices.Backward(stale) { // line numbers stay what they were
		if err := f.drop(s); err != nil {
			return err
		}
	}
	return nil
}

// drop removes the last argument of the name.
func (f *File) drop(s staleFlag) error {
	last, err := lastArg(f.value(s.kind, s.component...), s.name)
	if err == nil {
		err = f.document(s.kind).Remove(last, s.component...)
	}
	if err != nil {
		return fmt.Errorf("%s:%d: remove %s %s (%s): %w", f.name, s.line, strings.Join(s.component, "."), s.name, s.why, err)
	}
	return nil
}
