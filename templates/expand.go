package templates

import (
	"fmt"
	"slices"
	"strings"
	"text/template"
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

func expand(text string, v Values) (string, error) {
	t, err := template.New("").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := t.Execute(&out, v); err != nil {
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

// example lets a profile's templates be tried when it is read, not when a cluster waits for them.
func example() Values {
	return Values{
		Mode: StaticPod, Version: "v0.0.0", ClusterName: "example", KubernetesVersion: "v1.36.0",
		Endpoint: "https://192.0.2.1:6443", PodSubnet: "192.0.2.0/24", Routes: true, CloudConfig: true, Credentials: true,
	}
}
