package templates

import (
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
)

func (p *Profile) validateContainer(path *field.Path, c Container, static bool) field.ErrorList {
	errs := c.Image.validate(child(path, "image"), p)
	errs = append(errs, p.validateArgs(child(path, "args"), c.Args)...)
	for i, e := range c.Env {
		errs = append(errs, p.validateEnv(child(path, "env").Index(i), e, static)...)
	}
	for i, m := range c.Mounts {
		errs = append(errs, m.validate(child(path, "mounts").Index(i))...)
	}
	return errs
}

const floating = "a floating tag would change pods at any restart"

func (i Image) validate(at *field.Path, p *Profile) field.ErrorList {
	var errs field.ErrorList
	if strings.ContainsAny(i.Repository, " @$") || strings.Contains(path.Base(i.Repository), ":") {
		errs = append(errs, field.Invalid(at.Child("repository"), i.Repository,
			"must be an image without tag or digest"))
	}
	if i.Tag != "" && len(i.Tags) > 0 {
		errs = append(errs, field.Forbidden(at.Child("tag"), "tags has one for each Kubernetes version"))
	}
	if _, err := expand(i.Tag, p.example().lookup(p)); err != nil {
		errs = append(errs, field.Invalid(at.Child("tag"), i.Tag, err.Error()))
	}
	if i.Repository != "" && i.Tag == "" && len(i.Tags) == 0 && i.Rule == "" {
		errs = append(errs, field.Required(at.Child("tag"),
			"or tags, or a rule that says why the user has to name one"))
	}
	for _, minor := range slices.Sorted(maps.Keys(i.Tags)) {
		tag := i.Tags[minor]
		if v, err := version.ParseGeneric(minor); err != nil || len(v.Components()) != 2 {
			errs = append(errs, field.Invalid(at.Child("tags").Key(minor), minor, "must be a minor version like 1.36"))
		}
		if tag == "" || tag == "latest" {
			errs = append(errs, field.Invalid(at.Child("tags").Key(minor), tag, floating))
		}
	}
	if i.Late != "" && len(i.Tags) == 0 {
		errs = append(errs, field.Forbidden(at.Child("late"), "only tags can lack a minor version"))
	}
	if i.Tag == "latest" {
		errs = append(errs, field.Invalid(at.Child("tag"), i.Tag, floating))
	}
	return errs
}

func (p *Profile) validateArgs(path *field.Path, args []string) field.ErrorList {
	var errs field.ErrorList
	for i, text := range args {
		arg, err := expand(text, p.example().lookup(p))
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path.Index(i), text, err.Error()))
		case arg != "" && (!strings.HasPrefix(arg, "--") || !strings.Contains(arg, "=")):
			errs = append(errs, field.Invalid(path.Index(i), text, "must have the form --flag=value"))
		}
	}
	return errs
}

func (p *Profile) validateEnv(path *field.Path, e EnvVar, static bool) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsEnvVarName(e.Name) {
		errs = append(errs, field.Invalid(path.Child("name"), e.Name, msg))
	}
	given := 0
	for _, s := range []string{e.Value, e.Credential, e.Field} {
		if s != "" {
			given++
		}
	}
	if given != 1 {
		errs = append(errs, field.Required(path, "exactly one of value, credential and field"))
	}
	if _, err := expand(e.Value, p.example().lookup(p)); err != nil {
		errs = append(errs, field.Invalid(path.Child("value"), e.Value, err.Error()))
	}
	if e.Credential != "" && !p.knowsFile(e.Credential) {
		errs = append(errs, field.Invalid(path.Child("credential"), e.Credential, "no credential has this key"))
	}
	if e.Credential != "" && static {
		errs = append(errs, field.Forbidden(path.Child("credential"),
			"a static pod would show the secret to all who may see pods: leave StaticPod out of modes"))
	}
	return errs
}

func (m Mount) validate(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !path.IsAbs(m.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), m.Path, "must be absolute"))
	}
	if m.Why == "" {
		errs = append(errs, field.Required(at.Child("why"), "say what the program does with it"))
	}
	return errs
}

func (h Health) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if h.Scheme != "" {
		errs = append(errs, oneOf(path.Child("scheme"), h.Scheme, "HTTP", "HTTPS")...)
	}
	if h.Port != 0 {
		for _, msg := range validation.IsValidPortNum(int(h.Port)) {
			errs = append(errs, field.Invalid(path.Child("port"), h.Port, msg))
		}
	}
	return errs
}
