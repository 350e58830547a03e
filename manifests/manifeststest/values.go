package manifeststest

import (
	"github.com/ccmadm/ccmadm/templates"
)

// Values are what a profile is rendered from in a cluster of the Kubernetes version: with the least that the provider
// needs, or with all that it can be given. What only a user can name is made up.
func Values(p *templates.Profile, mode templates.Mode, kubernetes string, full bool) templates.Values {
	v := templates.Values{
		Mode: mode, Version: "v0.0.0", ClusterName: "ber1", KubernetesVersion: kubernetes,
		Endpoint: "https://198.18.0.10:6443", NodeLifecycle: true, ConfigHash: "0123456789abcdef",
	}
	if p.Config != nil && (p.Config.Required || full) {
		v.Files = append(v.Files, p.Config.File)
	}
	for _, c := range p.Credentials {
		if c.Required || full {
			v.Files = append(v.Files, c.Key)
		}
	}
	if full && p.Has(templates.Routes) {
		v.Routes, v.PodSubnet = true, "10.244.0.0/16"
	}
	for _, name := range p.UserArgs {
		v.ExtraArgs = append(v.ExtraArgs, name+"=fake")
	}
	if p.Image.Repository == "" {
		v.Image = "registry.example/ccm:v1"
	} else if _, err := p.ImageRef(v); err != nil {
		v.ImageTag = "v0" // there is no release for this version of Kubernetes
	}
	return v
}

// Files are contents for the files of v: the profile's own example and made-up credentials.
func Files(p *templates.Profile, v templates.Values) map[string][]byte {
	files := map[string][]byte{}
	for _, name := range v.Files {
		files[name] = []byte("credential of " + p.Name)
		if p.Config != nil && name == p.Config.File {
			files[name] = []byte(p.Config.Example)
			if p.Config.Example == "" {
				files[name] = []byte("{}\n")
			}
		}
	}
	return files
}
