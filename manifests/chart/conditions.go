package chart

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/templates"
)

// choice is a switch of the chart: a condition in Helm's words, and what it does to the values that are rendered.
type choice struct {
	when string
	set  func(v *templates.Values, on bool)
}

// choices are those that a provider has. A switch that it does not have is refused by the schema.
func choices(p *templates.Profile) []choice {
	list := []choice{
		{"$lifecycle", func(v *templates.Values, on bool) { v.NodeLifecycle = on }},
		{"$serving", func(v *templates.Values, on bool) { v.ServingCertificates = on }},
	}
	if modes := Modes(p); len(modes) > 1 {
		list = append(list, choice{fmt.Sprintf("eq $mode %q", modes[0]), func(v *templates.Values, on bool) {
			v.Mode = modes[1]
			if on {
				v.Mode = modes[0]
			}
		}})
	}
	if p.Has(templates.Routes) {
		list = append(list, choice{"$routes", func(v *templates.Values, on bool) { v.Routes = on }})
	}
	if p.NodeAgent != nil {
		list = append(list, choice{"$nodeAgent", func(v *templates.Values, on bool) { v.NodeAgent = on }})
	}
	if mayHaveConfig(p) {
		list = append(list, choice{"$cloudConfig", func(v *templates.Values, on bool) {
			if on {
				v.Files = append(v.Files, p.Config.File)
			}
		}})
	}
	return append(list, families(p)...)
}

// mayHaveConfig reports whether the provider reads a configuration file, and starts without it.
func mayHaveConfig(p *templates.Profile) bool { return p.Config != nil && !p.Config.Required }

// families are the switches of a provider that is told of which family the pods' addresses are.
func families(p *templates.Profile) []choice {
	told := slices.ContainsFunc(p.Env, func(e templates.EnvVar) bool { return strings.Contains(e.Value, "${ipFamily}") })
	if !told {
		return nil
	}
	return []choice{
		{"$ipv4", func(v *templates.Values, on bool) { v.PodSubnet = joined(on, podCIDR, v.PodSubnet, podCIDR6) }},
		{"$ipv6", func(v *templates.Values, on bool) { v.PodSubnet = joined(on, podCIDR6, v.PodSubnet, podCIDR) }},
	}
}

// joined is the pod CIDR with or without that of one family; it keeps the other.
func joined(on bool, own, before, other string) string {
	var list []string
	if strings.Contains(before, other) {
		list = append(list, other)
	}
	if on {
		list = append(list, own)
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// rendering is one combination of the switches, by bits, and its objects as text, by kind and name.
type rendering map[string]string

// provider is the template of one provider.
func provider(p *templates.Profile, version string) (string, error) {
	switches := choices(p)
	rendered := make([]rendering, 1<<len(switches))
	var order []string
	for bits := range rendered {
		v := tokens(p, version)
		for i, c := range switches {
			c.set(&v, bits>>i&1 == 1)
		}
		if v.Routes && v.PodSubnet == "" { // the schema refuses it
			v.PodSubnet = podCIDR
		}
		objects, err := render(p, v)
		if err != nil {
			return "", err
		}
		rendered[bits] = rendering{}
		for _, o := range objects {
			key := o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
			if !slices.Contains(order, key) {
				order = append(order, key)
			}
			if rendered[bits][key], err = template(p, version, o); err != nil {
				return "", err
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "{{- if eq .Values.provider %q }}\n%s", p.Name, header(p))
	for _, key := range order {
		texts := make([]string, len(rendered))
		for bits, r := range rendered {
			texts[bits] = r[key]
		}
		decide(&b, switches, texts)
	}
	b.WriteString("{{- end }}\n")
	return b.String(), nil
}

// decide writes the text of an object for all combinations of the switches: without those that change nothing, as if and else.
func decide(b *strings.Builder, switches []choice, texts []string) {
	if len(switches) == 0 {
		if texts[0] != "" {
			b.WriteString("---\n" + texts[0])
		}
		return
	}
	last := len(switches) - 1
	off, on := texts[:len(texts)/2], texts[len(texts)/2:] // the last switch is the highest bit
	if slices.Equal(off, on) {
		decide(b, switches[:last], off)
		return
	}
	if blank(on) {
		fmt.Fprintf(b, "{{- if not (%s) }}\n", switches[last].when)
		decide(b, switches[:last], off)
		b.WriteString("{{- end }}\n")
		return
	}
	fmt.Fprintf(b, "{{- if %s }}\n", switches[last].when)
	decide(b, switches[:last], on)
	if !blank(off) {
		b.WriteString("{{- else }}\n")
		decide(b, switches[:last], off)
	}
	b.WriteString("{{- end }}\n")
}

func blank(texts []string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return text != "" })
}

// render returns what `ccmadm render` prints without files.
func render(p *templates.Profile, v templates.Values) ([]*manifests.Object, error) {
	v.NodeAgent = v.NodeAgent || v.Routes && p.NodeAgent != nil
	rbac, err := manifests.RBAC(p, v)
	if err != nil {
		return nil, err
	}
	workload, err := manifests.Addon(p, v)
	if err != nil || !v.NodeAgent {
		return append(rbac, workload...), err
	}
	agent, err := manifests.NodeAgent(p, v)
	return slices.Concat(rbac, workload, agent), err
}

// header sets the variables that conditions and tokens name, and refuses what does not go together.
func header(p *templates.Profile) string {
	var b strings.Builder
	fmt.Fprintf(&b, "{{- $mode := default %q .Values.mode }}\n", Modes(p)[0])
	for _, line := range []string{
		"$lifecycle := .Values.features.lifecycle", "$routes := .Values.features.routes",
		"$serving := .Values.servingCertificates.enabled", "$cloudConfig := .Values.cloudConfig.enabled",
		"$nodeAgent := or .Values.nodeAgent.enabled $routes", "$ipv4 := contains \".\" .Values.podCIDR", "$ipv6 := contains \":\" .Values.podCIDR",
		"$minor := include \"ccmadm.minor\" .", "$host := include \"ccmadm.host\" .", "$port := include \"ccmadm.port\" .",
		"$mirror := .Values.imageRepository",
		"$clusterName := .Values.clusterName", "$podCIDR := .Values.podCIDR", "$endpoint := .Values.controlPlaneEndpoint",
		"$ranges := join \",\" .Values.servingCertificates.ranges", "$names := join \",\" .Values.servingCertificates.names",
		"$moreNames := ternary (print \",\" $names) \"\" (ne $names \"\")",
	} {
		b.WriteString("{{- " + line + " }}\n")
	}
	return b.String()
}

// dict is a map in Helm's words.
func dict(of map[string]string) string {
	var b strings.Builder
	b.WriteString("(dict")
	for _, key := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&b, " %q %q", key, of[key])
	}
	return b.String() + ")"
}
