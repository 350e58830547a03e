package templates

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Parse reads a profile strictly. Its error names everything that is wrong at once, each by its field path.
func Parse(file string, data []byte) (*Profile, error) {
	raw, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, fmt.Errorf("read profile %s: %w", file, err)
	}
	p := &Profile{}
	strict, err := kjson.UnmarshalStrict(raw, p)
	if err != nil {
		return nil, fmt.Errorf("read profile %s: %w", file, err)
	}
	if err := errors.Join(append(strict, p.validate().ToAggregate())...); err != nil {
		return nil, fmt.Errorf("read profile %s: %w", file, err)
	}
	return p, nil
}

func (p *Profile) validate() field.ErrorList {
	var errs field.ErrorList
	if p.APIVersion != APIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), p.APIVersion, []string{APIVersion}))
	}
	if p.Kind != Kind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), p.Kind, []string{Kind}))
	}
	for _, msg := range validation.IsDNS1123Label(p.Name) {
		errs = append(errs, field.Invalid(field.NewPath("name"), p.Name, msg))
	}
	if p.Title == "" {
		errs = append(errs, field.Required(field.NewPath("title"), ""))
	}
	errs = append(errs, p.validateImage(field.NewPath("image"))...)
	errs = append(errs, p.validateModes(field.NewPath("modes"))...)
	errs = append(errs, p.validateArgs(field.NewPath("args"))...)
	errs = append(errs, p.Config.validate(field.NewPath("config"))...)
	for i, c := range p.Credentials {
		errs = append(errs, c.validate(field.NewPath("credentials").Index(i))...)
	}
	for i, r := range p.RBAC {
		errs = append(errs, r.validate(field.NewPath("rbac").Index(i))...)
	}
	return errs
}

func (p *Profile) validateImage(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Image.Repository == "" || strings.ContainsAny(p.Image.Repository, " @$") {
		errs = append(errs, field.Invalid(path.Child("repository"), p.Image.Repository, "must be an image without tag or digest"))
	}
	if tag, err := expand(p.Image.Tag, example()); err != nil {
		errs = append(errs, field.Invalid(path.Child("tag"), p.Image.Tag, err.Error()))
	} else if tag == "" {
		errs = append(errs, field.Required(path.Child("tag"), "a floating tag would change pods at any restart"))
	}
	return errs
}

func (p *Profile) validateModes(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(p.Modes) == 0 {
		errs = append(errs, field.Required(path, "at least one of StaticPod, DaemonSet, Deployment"))
	}
	all := []Mode{StaticPod, DaemonSet, Deployment}
	for i, m := range p.Modes {
		if !slices.Contains(all, m) {
			errs = append(errs, field.NotSupported(path.Index(i), m, all))
		}
	}
	return errs
}

func (p *Profile) validateArgs(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, text := range p.Args {
		arg, err := expand(text, example())
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path.Index(i), text, err.Error()))
		case arg != "" && !strings.HasPrefix(arg, "--"):
			errs = append(errs, field.Invalid(path.Index(i), text, "must have the form --flag=value"))
		}
	}
	return errs
}

func (c Config) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	formats := []Format{YAML, JSON, INI, Opaque}
	if !slices.Contains(formats, c.Format) {
		errs = append(errs, field.NotSupported(path.Child("format"), c.Format, formats))
	}
	for _, msg := range validation.IsConfigMapKey(c.File) {
		errs = append(errs, field.Invalid(path.Child("file"), c.File, msg))
	}
	if c.Format == Opaque && len(c.RequiredKeys) > 0 {
		errs = append(errs, field.Forbidden(path.Child("requiredKeys"), "an opaque file has no keys"))
	}
	return errs
}

func (c Credential) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsConfigMapKey(c.Key) {
		errs = append(errs, field.Invalid(path.Child("key"), c.Key, msg))
	}
	if c.Why == "" {
		errs = append(errs, field.Required(path.Child("why"), "say what the provider does with it"))
	}
	return errs
}

func (r Rule) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, list := range map[string][]string{"apiGroups": r.APIGroups, "resources": r.Resources, "verbs": r.Verbs} {
		if len(list) == 0 {
			errs = append(errs, field.Required(path.Child(name), ""))
		}
		if i := slices.Index(list, "*"); i >= 0 {
			errs = append(errs, field.Forbidden(path.Child(name).Index(i), "name what is needed: nothing is granted wholesale"))
		}
	}
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	if r.Why == "" {
		errs = append(errs, field.Required(path.Child("why"), "name the caller of these verbs"))
	}
	return errs
}
