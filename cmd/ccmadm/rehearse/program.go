package rehearse

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/templates"
)

// arguments are the profile's, and the user's. What a pod finds in its own places is in ours.
func (r *rehearser) arguments(p *templates.Profile, files []string, local *strings.Replacer) ([]string, error) {
	v := templates.Values{
		Mode: templates.StaticPod, Version: r.release, ClusterName: r.settings.ClusterName, Files: files, NodeLifecycle: true,
	}
	own, err := p.ExpandArgs(v)
	if err != nil {
		return nil, err
	}
	args := []string{"--cloud-provider=" + p.CloudProviderName(), "--cluster-name=" + v.ClusterName}
	if config := v.ConfigPath(p); config != "" {
		args = append(args, "--cloud-config="+config)
	}
	if args, err = templates.MergeArgs(args, own); err != nil {
		return nil, err
	}
	for i := range args {
		args[i] = local.Replace(args[i])
	}
	for _, name := range p.UserArgs {
		if !slices.ContainsFunc(r.args, func(arg string) bool { return strings.HasPrefix(arg, name+"=") }) {
			return nil, fmt.Errorf("provider %s needs --arg %s=VALUE", p.Name, name)
		}
	}
	return templates.MergeArgs(args, r.args)
}

// environment is the profile's, with credentials in place of their keys, and what --env names.
func (r *rehearser) environment(
	p *templates.Profile, files map[string][]byte, local *strings.Replacer, lookup func(string) string,
) ([]string, error) {
	v := templates.Values{Mode: templates.StaticPod, ClusterName: r.settings.ClusterName, Files: slices.Sorted(maps.Keys(files))}
	list, err := p.ExpandEnv(p.Container, v, "")
	if err != nil {
		return nil, finding.Usagef("%w", err)
	}
	var env []string
	for _, e := range list {
		switch {
		case e.ValueFrom == nil:
			env = append(env, e.Name+"="+local.Replace(e.Value))
		case e.ValueFrom.SecretKeyRef != nil:
			env = append(env, e.Name+"="+strings.TrimSpace(string(files[e.ValueFrom.SecretKeyRef.Key])))
		}
	}
	for _, name := range r.env {
		value := lookup(name)
		if value == "" {
			return nil, finding.Usagef("read --env: variable %s is empty or not set", name)
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}
