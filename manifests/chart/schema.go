package chart

import (
	"maps"
	"slices"

	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/templates"
)

type object = map[string]any

// schema is that of the chart's values.
func schema(offered []*templates.Profile) object {
	known, rules := limits(offered)
	root := closed(properties(known))
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["required"] = []string{"provider", "clusterName"}
	root["allOf"] = rules
	return root
}

// limits are the names of providers, and rules by which what a provider does not have is refused for it.
func limits(offered []*templates.Profile) (known []string, rules []any) {
	for _, p := range offered {
		known = append(known, p.Name)
		limits := object{"mode": object{"enum": append([]templates.Mode{""}, Modes(p)...)}}
		if !p.Has(templates.Routes) {
			limits["features"] = object{"properties": object{"routes": object{"const": false}}}
		}
		if p.NodeAgent == nil {
			limits["nodeAgent"] = object{"properties": object{"enabled": object{"const": false}}}
		}
		if p.Config == nil {
			limits["cloudConfig"] = object{"properties": object{"enabled": object{"const": false}}}
		}
		if p.Image.Repository == "" {
			limits["image"] = object{"minLength": 1}
		}
		rules = append(rules, object{
			"if":   object{"properties": object{"provider": object{"const": p.Name}}},
			"then": object{"properties": limits},
		})
	}
	rules = append(rules, object{
		"if":   object{"properties": object{"features": object{"properties": object{"routes": object{"const": true}}}}},
		"then": object{"properties": object{"podCIDR": object{"minLength": 1}}},
	})
	return known, rules
}

func text(about, pattern string) object {
	return object{"type": "string", "description": about, "pattern": pattern}
}

func list(about string, items object) object {
	return object{"type": "array", "description": about, "items": items}
}

// closed has these properties, and no others. Its switches have to be there: Helm takes a null for "not there", and templates would
// take that for off.
func closed(properties object) object {
	switches := []string{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if property, _ := properties[name].(object); property["type"] == "boolean" {
			switches = append(switches, name)
		}
	}
	return object{"type": "object", "additionalProperties": false, "properties": properties, "required": switches}
}

// whole is closed, with all of its properties.
func whole(properties object) object {
	o := closed(properties)
	o["required"] = slices.Sorted(maps.Keys(properties))
	return o
}

// clusterNames are those that ccmadm takes: subdomains of DNS.
const clusterNames = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`

// properties are the values with their types.
func properties(known []string) object {
	flag := object{"type": "boolean"}
	secret := text("a Secret in kube-system", `^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	env := whole(object{
		"name":   text("name of the variable", `^[A-Za-z_][A-Za-z0-9_]*$`),
		"secret": secret,
		"key":    text("its key", `^[-._a-zA-Z0-9]+$`),
	})
	clusterName := text("name given to the provider", clusterNames)
	clusterName["maxLength"] = 253
	return object{
		"provider":             object{"type": "string", "enum": known},
		"clusterName":          clusterName,
		"mode":                 object{"type": "string", "enum": []templates.Mode{"", templates.DaemonSet, templates.Deployment}},
		"image":                text("a complete reference", `^[^\s"]*$`),
		"imageRepository":      text("a mirror", `^[^\s"]*$`),
		"imagePullSecrets":     list("Secrets in kube-system", whole(object{"name": secret})),
		"kubernetesVersion":    text("version of the cluster", `^(v?1\.[0-9]+(\.[0-9]+)?)?$`),
		"controlPlaneEndpoint": text("https://HOST:PORT", `^(https://[^/\s"]+:[0-9]+)?$`),
		"podCIDR":              text("CIDR, or two with a comma", `^([0-9a-fA-F.:]+/[0-9]+(,[0-9a-fA-F.:]+/[0-9]+)?)?$`),
		"features":             closed(object{"lifecycle": flag, "routes": flag}),
		"nodeAgent":            closed(object{"enabled": flag}),
		"cloudConfig":          closed(object{"enabled": flag}),
		"servingCertificates": closed(object{
			"enabled": flag,
			"ranges":  list("CIDRs", addressRange()),
			"names":   list("DNS names", text("a name, or *.DOMAIN", `^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)),
		}),
		"extraArgs": list("arguments", argument()),
		"extraEnv":  list("variables from Secrets", env),
		"monitoring": closed(object{
			"enabled": flag, "labels": object{"type": "object", "additionalProperties": object{"type": "string"}},
		}),
		// The condition of a chart that has this one as a dependency: where it is false, Helm reads nothing here.
		"enabled": object{"const": true},
		"global":  object{"type": "object"}, // Helm's own, in a chart that has this one as a dependency
	}
}

// mapped are IPv4 addresses in IPv6: five groups of zeros before ffff, or some of them as "::" and two groups after it.
const mapped = `^((0{1,4}:){5}[fF]{4}:|[0:]*::[0:]*[fF]{4}:([0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}|[0-9.]+)/)`

// addressRange is one that the cloud-controller-manager starts with: not of all addresses, and not of IPv4 in IPv6.
func addressRange() object {
	cidr := text("CIDR", `^[0-9a-fA-F.:]+/[1-9][0-9]*$`)
	cidr["not"] = object{"pattern": mapped}
	return cidr
}

// argument is one that has no credential, as far as its flag's name and an address in it say.
func argument() object {
	pattern := func(text string) object { return object{"pattern": text} }
	arg := text("--flag=value, without credentials", `^--[^=\s]+=`)
	arg["not"] = object{"anyOf": []any{
		pattern(`://[^/\s]*@`),
		object{"allOf": []any{pattern(redact.SecretArgument), object{"not": pattern(redact.HarmlessArgument)}}},
	}}
	return arg
}
