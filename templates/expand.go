package templates

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// CloudProviderName is the value of --cloud-provider.
func (p *Profile) CloudProviderName() string {
	return cmp.Or(p.CloudProvider, p.Name)
}

// DefaultLease is upstream's name for the leader's Lease.
const DefaultLease = "cloud-controller-manager"

// LeaseName is the Lease of the leader.
func (p *Profile) LeaseName() string {
	return cmp.Or(p.Lease, DefaultLease)
}

// ImageRef returns the image to run: the one in v as it stands, else the profile's own for that Kubernetes version,
// from the mirror of v if it names one.
func (p *Profile) ImageRef(v Values) (string, error) {
	if v.Image != "" {
		return v.Image, nil
	}
	return p.ContainerImage(p.Image, v)
}

// ContainerImage returns the image of an agent.
func (p *Profile) ContainerImage(i Image, v Values) (string, error) {
	ref, err := i.ref(v)
	if err != nil {
		return "", fmt.Errorf("choose the image of provider %s: %w", p.Name, err)
	}
	return ref, nil
}

// Images lists every image that the provider runs.
func (p *Profile) Images(v Values) ([]string, error) {
	main, err := p.ImageRef(v)
	if err != nil {
		return nil, err
	}
	list := []string{main}
	for _, a := range p.Agents {
		ref, err := p.ContainerImage(a.Image, v)
		if err != nil {
			return nil, err
		}
		list = append(list, ref)
	}
	if p.NodeAgent != nil {
		ref, err := p.NodeAgentImage(v)
		if err != nil {
			return nil, err
		}
		list = append(list, ref)
	}
	if p.NeedsApprover(v) {
		ref, err := p.ApproverImage(v)
		if err != nil {
			return nil, err
		}
		list = append(list, ref)
	}
	return list, nil
}

// ExpandArgs returns the provider's own arguments. Those for routes and for serving certificates win over the others.
func (p *Profile) ExpandArgs(v Values) ([]string, error) {
	var more [][]string
	if v.Routes {
		more = append(more, p.RoutesArgs)
	}
	if v.ServingCertificates {
		more = append(more, p.ServingArgs)
		if p.ApprovesItself() {
			more = append(more, p.ServingNameArgs(v))
		}
	}
	args, err := p.expandList(p.Args, v)
	if err != nil {
		return nil, err
	}
	for _, texts := range more {
		added, err := p.expandList(texts, v)
		if err != nil {
			return nil, err
		}
		if args, err = MergeArgs(args, added); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// ExpandAgentArgs returns an agent's arguments.
func (p *Profile) ExpandAgentArgs(a Agent, v Values) ([]string, error) {
	return p.expandList(a.Args, v)
}

// MergeArgs adds arguments to others. A flag of more takes the place of the same one in list, since a flag given twice misleads
// readers. A flag that more has several times stays so: some add to what they had, as --feature-gates and --controllers do. An
// argument that has not the form --flag=value is an error.
func MergeArgs(list, more []string) ([]string, error) {
	given := map[string][]string{}
	for _, arg := range more {
		name, _, ok := strings.Cut(arg, "=")
		if !ok || !strings.HasPrefix(arg, "--") {
			return nil, fmt.Errorf("argument %q: must have the form --flag=value", arg)
		}
		given[name] = append(given[name], arg)
	}
	var merged []string
	for _, arg := range slices.Concat(list, more) {
		name, _, _ := strings.Cut(arg, "=")
		if own, is := given[name]; is {
			merged, given[name] = append(merged, own...), nil
		} else {
			merged = append(merged, arg)
		}
	}
	return merged, nil
}

func (p *Profile) expandList(texts []string, v Values) ([]string, error) {
	var args []string
	for i, text := range texts {
		arg, err := expand(text, v.lookup(p))
		if err != nil {
			return nil, fmt.Errorf("render args[%d] of profile %s: %w", i, p.Name, err)
		}
		if arg != "" {
			args = append(args, arg)
		}
	}
	return args, nil
}

// ExpandEnv returns the environment of a container of the profile. Secret names the Secret with the credentials.
func (p *Profile) ExpandEnv(c Container, v Values, secret string) ([]corev1.EnvVar, error) {
	var list []corev1.EnvVar
	for _, e := range c.Env {
		env := corev1.EnvVar{Name: e.Name}
		switch {
		case e.Field != "":
			env.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: e.Field}}
		case e.Credential != "":
			if !slices.Contains(v.Files, e.Credential) {
				continue
			}
			env.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: e.Credential,
			}}
		default:
			value, err := expand(e.Value, v.lookup(p))
			if err != nil {
				return nil, fmt.Errorf("render env %s of profile %s: %w", e.Name, p.Name, err)
			}
			if value == "" {
				continue
			}
			env.Value = value
		}
		list = append(list, env)
	}
	return list, nil
}

// lookup finds the values that texts of a profile may name.
func (v Values) lookup(p *Profile) func(string) (string, error) {
	fields := map[string]string{
		"version": v.Version, "kubernetesVersion": v.KubernetesVersion, "clusterName": v.ClusterName,
		"endpoint": v.Endpoint, "podSubnet": v.PodSubnet, "mode": string(v.Mode),
		"routes": strconv.FormatBool(v.Routes), "ipFamily": v.ipFamily(), "kubeconfig": "", "cloudConfig": "",
		"servingRanges": v.ServingRanges,
	}
	if v.Mode == StaticPod {
		fields["kubeconfig"] = Kubeconfig
	}
	if p != nil {
		fields["cloudConfig"] = v.ConfigPath(p)
	}
	named := fromMap(fields)
	return func(name string) (string, error) {
		file, ok := strings.CutPrefix(name, "file:")
		if !ok {
			return named(name)
		}
		if p != nil && !p.knowsFile(file) {
			return "", fmt.Errorf("no credential has the key %q", file)
		}
		if !slices.Contains(v.Files, file) {
			return "", nil
		}
		return ConfigDir + "/" + file, nil
	}
}

func fromMap(fields map[string]string) func(string) (string, error) {
	return func(name string) (string, error) {
		value, ok := fields[name]
		if !ok {
			known := strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
			return "", fmt.Errorf("no value is called %q; there are %s", name, cmp.Or(known, "none"))
		}
		return value, nil
	}
}

// expand replaces every ${name}; a text with one that is empty is empty as a whole. It is not text/template, which
// reaches methods by reflection: the linker then keeps every method of the Kubernetes API types, and the program is
// twice the size.
func expand(text string, lookup func(string) (string, error)) (string, error) {
	var failure error
	empty := false
	out := os.Expand(text, func(name string) string {
		value, err := lookup(name)
		if err != nil && failure == nil {
			failure = fmt.Errorf("expand %q: %w", text, err)
		}
		empty = empty || value == ""
		return value
	})
	if failure != nil || empty {
		return "", failure
	}
	return out, nil
}

// example lets a profile's texts be tried when it is read, not when a cluster waits for them.
func (p *Profile) example() Values {
	v := Values{
		Mode: StaticPod, Version: "v0.0.0", ClusterName: "example", KubernetesVersion: "v1.36.0",
		Endpoint: "https://192.0.2.1:6443", PodSubnet: "192.0.2.0/24", Routes: true,
	}
	if p.Config != nil {
		v.Files = append(v.Files, p.Config.File)
	}
	for _, c := range p.Credentials {
		v.Files = append(v.Files, c.Key)
	}
	return v
}

// CanRehearse is what is known of the program; Unknown where the profile says nothing.
func (p *Profile) CanRehearse() Rehearsal {
	if p.Rehearsal == nil {
		return Rehearsal{Verdict: RehearsalUnknown, Why: "the profile does not say"}
	}
	return *p.Rehearsal
}

// ProgramInImage is the file that the image starts, as far as the profile knows.
func (p *Profile) ProgramInImage() string {
	if len(p.Command) == 1 {
		return p.Command[0]
	}
	return p.CanRehearse().Program
}
