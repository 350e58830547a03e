package templates

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// Supports says whether the provider can run that way.
func (p *Profile) Supports(m Mode) bool { return slices.Contains(p.Modes, m) }

// ImageRef returns the image to run: the one in v, else the profile's own.
func (p *Profile) ImageRef(v Values) (string, error) {
	if v.Image != "" {
		return v.Image, nil
	}
	tag, err := expand(p.Image.Tag, v)
	if err != nil {
		return "", fmt.Errorf("render image of profile %s: %w", p.Name, err)
	}
	if tag == "" {
		return "", fmt.Errorf("render image of profile %s: no value for tag %q", p.Name, p.Image.Tag)
	}
	return p.Image.Repository + ":" + tag, nil
}

// ExpandArgs returns the provider's own arguments.
func (p *Profile) ExpandArgs(v Values) ([]string, error) {
	var args []string
	for i, text := range p.Args {
		arg, err := expand(text, v)
		if err != nil {
			return nil, fmt.Errorf("render args[%d] of profile %s: %w", i, p.Name, err)
		}
		if arg != "" {
			args = append(args, arg)
		}
	}
	return args, nil
}

// expand replaces ${name} by a field of v. It is not text/template, which reaches methods by reflection: the linker
// then keeps every method of the Kubernetes API types, and the program is twice the size.
func expand(text string, v Values) (string, error) {
	fields := map[string]string{
		"version": v.Version, "kubernetesVersion": v.KubernetesVersion, "clusterName": v.ClusterName,
		"endpoint": v.Endpoint, "podSubnet": v.PodSubnet, "mode": string(v.Mode),
	}
	var err error
	empty := false
	out := os.Expand(text, func(name string) string {
		value, ok := fields[name]
		if !ok && err == nil {
			err = fmt.Errorf("expand %q: no value is called %q; there are %s", text, name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		empty = empty || value == ""
		return value
	})
	if err != nil || empty {
		return "", err
	}
	return out, nil
}

// example lets a profile's texts be tried when it is read, not when a cluster waits for them.
func example() Values {
	return Values{
		Mode: StaticPod, Version: "v0.0.0", ClusterName: "example", KubernetesVersion: "v1.36.0",
		Endpoint: "https://192.0.2.1:6443", PodSubnet: "192.0.2.0/24", Routes: true, CloudConfig: true, Credentials: true,
	}
}
