package chart

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/templates"
)

// Tokens are rendered in the place of users' texts. They are valid where they stand, and stand nowhere else.
const (
	clusterName = "ccmadm-chart-cluster-name"
	podCIDR     = "10.255.254.0/23"
	podCIDR6    = "fd00:cc:ad:3::/64"
	host, port  = "ccmadm-chart-endpoint.invalid", "64430"
	endpoint    = "https://" + host + ":" + port
	ranges      = "192.0.2.222/31"
	names       = "ccmadm-chart-names.invalid"
	extraArg    = "--ccmadm-chart-extra-args=x"
	image       = "ccmadm-chart-image.invalid/image:x"
	tag         = "ccmadm-chart-tag"
)

// moreNames is the variable for names after those of the profile, without which there is an argument, too.
const moreNames = "$moreNames"

// token is a text, and the variable of the template that takes its place. The longer ones come first.
type token struct{ text, variable string }

func all() []token {
	return []token{
		{podCIDR + "," + podCIDR6, "$podCIDR"},
		{podCIDR, "$podCIDR"},
		{podCIDR6, "$podCIDR"},
		{endpoint, "$endpoint"},
		{host, "$host"},
		{port, "$port"},
		{clusterName, "$clusterName"},
		{ranges, "$ranges"},
		{"," + names, moreNames},
		{names, "$names"},
	}
}

// tokens are values in which each text of a user is a token.
func tokens(p *templates.Profile, version string) templates.Values {
	v := templates.Values{
		Mode: Modes(p)[0], Version: version, Image: image, ImageTag: tag, ClusterName: clusterName,
		KubernetesVersion: minors.Newest(), Endpoint: endpoint, PodSubnet: podCIDR, Files: p.RequiredFiles(), ExtraArgs: []string{extraArg}, ServingRanges: ranges, ServingNames: []string{names},
	}
	if families(p) != nil {
		v.PodSubnet = ""
	}
	return v
}

// template is an object as text, in which tokens have become variables: in arguments and in the environment of containers, which
// are left out where the value is empty, and nowhere else.
func template(p *templates.Profile, version string, o *manifests.Object) (string, error) {
	o = o.DeepCopy()
	placed := map[string]string{}
	place := func(text string) string {
		name := fmt.Sprintf("ccmadm-chart-place-%d", len(placed))
		placed[name] = text
		return name
	}
	for _, c := range containers(o) {
		args, _ := c["args"].([]any)
		ours := slices.Contains(args, any(extraArg))
		if len(args) > 0 || c["command"] == nil { // something has to come first, whatever becomes of the environment
			c["args"] = place(argsBlock(args))
		}
		env, _ := c["env"].([]any)
		block, err := envBlock(env, ours)
		if err != nil {
			return "", err
		}
		if block != "" {
			c["env"] = place(block)
		}
		if reference := fmt.Sprint(c["image"]); reference == image {
			c["image"] = place(imageLine(p, version, p.Image, "$.Values.image"))
		} else if repository, byMinor := strings.CutSuffix(reference, ":"+tag); byMinor {
			c["image"] = place(imageLine(p, version, imageOf(p, repository), `""`))
		} else { // the same for each version of Kubernetes
			c["image"] = place(`%LINE% {{ include "ccmadm.mirrored" (dict "mirror" $mirror "image" "` + reference + `") | quote }}` + "\n")
		}
	}
	if pod := podSpec(o); pod != nil {
		pod["imagePullSecrets"] = place(pullSecrets)
	}
	text, err := encode(o)
	if err != nil {
		return "", err
	}
	for _, t := range append(all(), token{text: extraArg}, token{text: image}, token{text: tag}) {
		if strings.Contains(text, t.text) {
			return "", fmt.Errorf("%s/%s has %q outside of arguments and environment", o.GetKind(), o.GetName(), t.text)
		}
	}
	if o.GetKind() == "CustomResourceDefinition" { // without the policy, a release without the agent deletes all AddressPools and BGPPeers
		text = strings.Replace(text, "  annotations:\n", "  annotations:\n    helm.sh/resource-policy: keep\n", 1)
	}
	line := regexp.MustCompile(`(?m)^( *(?:- )?)(args|env|image|imagePullSecrets): (ccmadm-chart-place-\d+)\n`)
	return line.ReplaceAllStringFunc(text, func(found string) string {
		m := line.FindStringSubmatch(found)
		return strings.NewReplacer("%LINE%", m[1]+m[2]+":", "%INDENT%", fmt.Sprint(len(m[1]))).Replace(placed[m[3]])
	}), nil
}

// pullSecrets names the user's Secrets, in all pods.
const pullSecrets = "{{- with $.Values.imagePullSecrets }}\n%LINE%\n{{- toYaml . | nindent %INDENT% }}\n{{- end }}\n"

// podSpec is that of the object's pods, nil if it has none.
func podSpec(o *manifests.Object) map[string]any {
	spec, _ := o.Object["spec"].(map[string]any)
	pod, _ := spec["template"].(map[string]any)
	inner, _ := pod["spec"].(map[string]any)
	return inner
}

// containers are those of the object's pods.
func containers(o *manifests.Object) (list []map[string]any) {
	all, _ := podSpec(o)["containers"].([]any)
	for _, c := range all {
		if c, is := c.(map[string]any); is {
			list = append(list, c)
		}
	}
	return list
}

// encode returns an object as YAML, in which Helm sees no template.
func encode(o *manifests.Object) (string, error) {
	data, err := yaml.Marshal(o.Object)
	if err != nil {
		return "", fmt.Errorf("encode %s/%s: %w", o.GetKind(), o.GetName(), err)
	}
	return strings.ReplaceAll(string(data), "{{", `{{ "{{" }}`), nil
}

// argsBlock makes the list of arguments in the template, and merges the user's into the manager's.
func argsBlock(args []any) string {
	var b strings.Builder
	b.WriteString("{{- $args := list }}\n")
	extra := "list"
	for _, a := range args {
		text := fmt.Sprint(a)
		if text == extraArg {
			extra = "$.Values.extraArgs"
			continue
		}
		value, needs := expression(text)
		when(&b, needs, fmt.Sprintf("{{- $args = append $args %s }}\n", value))
	}
	fmt.Fprintf(&b, "%%LINE%%\n{{- include \"ccmadm.args\" (dict \"args\" $args \"extra\" %s) | nindent %%INDENT%% }}\n", extra)
	return b.String()
}

// envBlock writes the variables one by one. The user's take the place of those of the same name.
func envBlock(env []any, ours bool) (string, error) {
	if len(env) == 0 && !ours {
		return "", nil
	}
	var b strings.Builder
	b.WriteString("{{- $env := list }}\n")
	for _, e := range env {
		variable, _ := e.(map[string]any)
		text := fmt.Sprint(variable["value"])
		if _, plain := variable["value"]; plain {
			value, needs := expression(text)
			when(&b, needs, fmt.Sprintf("{{- $env = append $env (dict \"name\" %q \"value\" %s) }}\n", variable["name"], value))
			continue
		}
		data, err := yaml.Marshal(variable)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "{{- $env = append $env (fromYaml %q) }}\n", data)
	}
	extra := "list"
	if ours {
		extra = "$.Values.extraEnv"
	}
	fmt.Fprintf(&b, "{{- with include \"ccmadm.env\" (dict \"env\" $env \"extra\" %s) }}\n%%LINE%%\n{{- . | nindent %%INDENT%% }}\n{{- end }}\n", extra)
	return b.String(), nil
}

// when writes a line that counts only if no variable is empty.
func when(b *strings.Builder, needs []string, line string) {
	if len(needs) > 0 {
		line = "{{- if and " + strings.Join(needs, " ") + " }}\n" + line + "{{- end }}\n"
	}
	b.WriteString(line)
}

// expression is a text in Helm's words, and the variables in it without which there is none.
func expression(text string) (value string, needs []string) {
	parts := []string{}
	for text != "" {
		at, first := len(text), token{}
		for _, t := range all() {
			if i := strings.Index(text, t.text); i >= 0 && i < at {
				at, first = i, t
			}
		}
		if at > 0 {
			parts = append(parts, fmt.Sprintf("%q", text[:at]))
		}
		if first.text != "" {
			parts = append(parts, first.variable)
		}
		if first.text != "" && first.variable != moreNames {
			needs = append(needs, first.variable)
		}
		text = text[at+len(first.text):]
	}
	return "(print " + strings.Join(parts, " ") + ")", slices.Compact(needs)
}

// imageOf is the image of one of the provider's agents.
func imageOf(p *templates.Profile, repository string) templates.Image {
	for _, a := range p.Agents {
		if a.Image.Repository == repository {
			return a.Image
		}
	}
	return p.NodeAgent.Image
}

// imageLine is the user's image, or the one that the profile has for the cluster's minor version.
func imageLine(p *templates.Profile, version string, i templates.Image, own string) string {
	known := map[string]string{}
	for _, minor := range minors.Known() {
		if ref, err := p.ContainerImage(i, templates.Values{Version: version, KubernetesVersion: minor + ".0"}); err == nil {
			known[minor] = ref
		}
	}
	const line = "%%LINE%% {{ include \"ccmadm.image\" " +
		"(dict \"image\" %s \"minor\" $minor \"known\" %s \"mirror\" $mirror \"provider\" %q) | quote }}\n"
	return fmt.Sprintf(line, own, dict(known), p.Name)
}
