package templates

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
)

func (p *Profile) validate() field.ErrorList {
	at := field.NewPath
	errs := field.ErrorList{}
	errs = append(errs, oneOf(at("apiVersion"), p.APIVersion, APIVersion)...)
	errs = append(errs, oneOf(at("kind"), p.Kind, Kind)...)
	for _, msg := range validation.IsDNS1123Label(p.Name) {
		errs = append(errs, field.Invalid(at("name"), p.Name, msg))
	}
	if p.Title == "" {
		errs = append(errs, field.Required(at("title"), ""))
	}
	errs = append(errs, oneOf(at("status"), p.Status, Supported, BestEffort, Deprecated, Example)...)
	if p.Status == Deprecated && p.Instead == "" {
		errs = append(errs, field.Required(at("instead"), "say what to use instead"))
	}
	errs = append(errs, listOf(at("features"), p.Features, Nodes, Lifecycle, Services, Routes)...)
	errs = append(errs, listOf(at("modes"), p.Modes, StaticPod, DaemonSet, Deployment)...)
	errs = append(errs, p.validateContainer(nil, p.Container, p.Supports(StaticPod))...)
	errs = append(errs, p.validateArgs(at("routesArgs"), p.RoutesArgs)...)
	if p.Health != (Health{}) {
		errs = append(errs, p.Health.validate(at("health"))...)
	}
	for i, a := range p.Agents {
		errs = append(errs, p.validateAgent(at("agents").Index(i), a)...)
	}
	errs = append(errs, p.validateFiles()...)
	errs = append(errs, validateRules(at("rbac"), p.RBAC)...)
	return append(errs, p.validateNode(at("node"))...)
}

func oneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func listOf[T ~string](path *field.Path, values []T, allowed ...T) field.ErrorList {
	if len(values) == 0 {
		return field.ErrorList{field.NotSupported(path, T(""), allowed)}
	}
	var errs field.ErrorList
	for i, v := range values {
		errs = append(errs, oneOf(path.Index(i), v, allowed...)...)
	}
	return errs
}

// child is a field of path, which is nil for the profile itself.
func child(path *field.Path, name string) *field.Path {
	if path == nil {
		return field.NewPath(name)
	}
	return path.Child(name)
}

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

func (i Image) validate(at *field.Path, p *Profile) field.ErrorList {
	var errs field.ErrorList
	if strings.ContainsAny(i.Repository, " @$") || strings.Contains(path.Base(i.Repository), ":") {
		errs = append(errs, field.Invalid(at.Child("repository"), i.Repository, "must be an image without tag or digest"))
	}
	if i.Tag != "" && len(i.Tags) > 0 {
		errs = append(errs, field.Forbidden(at.Child("tag"), "tags has one for each Kubernetes version"))
	}
	if _, err := expand(i.Tag, p.example().lookup(p)); err != nil {
		errs = append(errs, field.Invalid(at.Child("tag"), i.Tag, err.Error()))
	}
	if i.Repository != "" && i.Tag == "" && len(i.Tags) == 0 && i.Rule == "" {
		errs = append(errs, field.Required(at.Child("tag"), "or tags, or a rule that says why the user has to name one"))
	}
	for minor, tag := range i.Tags {
		if v, err := version.ParseGeneric(minor); err != nil || len(v.Components()) != 2 {
			errs = append(errs, field.Invalid(at.Child("tags").Key(minor), minor, "must be a minor version like 1.36"))
		}
		if tag == "" || tag == "latest" {
			errs = append(errs, field.Invalid(at.Child("tags").Key(minor), tag, "a floating tag would change pods at any restart"))
		}
	}
	if i.Tag == "latest" {
		errs = append(errs, field.Invalid(at.Child("tag"), i.Tag, "a floating tag would change pods at any restart"))
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
		errs = append(errs, field.Forbidden(path.Child("credential"), "a static pod would show the secret to all who may see pods: leave StaticPod out of modes"))
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

func (p *Profile) validateAgent(path *field.Path, a Agent) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(a.Name) {
		errs = append(errs, field.Invalid(path.Child("name"), a.Name, msg))
	}
	if a.Why == "" {
		errs = append(errs, field.Required(path.Child("why"), "say what it does on every node"))
	}
	errs = append(errs, p.validateContainer(path, a.Container, false)...)
	return append(errs, validateRules(path.Child("rbac"), a.RBAC)...)
}

func (p *Profile) validateFiles() field.ErrorList {
	var errs field.ErrorList
	if p.Config != nil {
		errs = append(errs, p.Config.validate(field.NewPath("config"))...)
	}
	for i, c := range p.Credentials {
		errs = append(errs, c.validate(field.NewPath("credentials").Index(i))...)
	}
	return errs
}

func (c Config) validate(path *field.Path) field.ErrorList {
	errs := oneOf(path.Child("format"), c.Format, YAML, JSON, INI, Opaque)
	for _, msg := range validation.IsConfigMapKey(c.File) {
		errs = append(errs, field.Invalid(path.Child("file"), c.File, msg))
	}
	if c.Format == Opaque && len(c.RequiredKeys) > 0 {
		errs = append(errs, field.Forbidden(path.Child("requiredKeys"), "an opaque file has no keys"))
	}
	if c.Inventory != nil {
		for _, msg := range validation.IsConfigMapKey(c.Inventory.File) {
			errs = append(errs, field.Invalid(path.Child("inventory", "file"), c.Inventory.File, msg))
		}
		if c.Inventory.Setting == "" || c.Format != YAML {
			errs = append(errs, field.Invalid(path.Child("inventory", "setting"), c.Inventory.Setting, "must be a key of a YAML file"))
		}
	}
	if c.Example != "" && len(errs) == 0 {
		if wrong := c.check(c.File, []byte(c.Example)); len(wrong) > 0 {
			errs = append(errs, field.Invalid(path.Child("example"), c.Example, wrong[0].Error()))
		}
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

func validateRules(path *field.Path, rules []Rule) field.ErrorList {
	var errs field.ErrorList
	for i, r := range rules {
		errs = append(errs, r.validate(path.Index(i))...)
	}
	return errs
}

func (r Rule) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, l := range []struct {
		name string
		list []string
	}{{"apiGroups", r.APIGroups}, {"resources", r.Resources}, {"verbs", r.Verbs}} {
		if len(l.list) == 0 {
			errs = append(errs, field.Required(path.Child(l.name), ""))
		}
		if i := slices.Index(l.list, "*"); i >= 0 {
			errs = append(errs, field.Forbidden(path.Child(l.name).Index(i), "name what is needed: nothing is granted wholesale"))
		}
	}
	if r.When != "" {
		errs = append(errs, oneOf(path.Child("when"), r.When, WhenConfig, WhenLifecycle, WhenServices, WhenRoutes)...)
	}
	if r.Why == "" {
		errs = append(errs, field.Required(path.Child("why"), "name the caller of these verbs"))
	}
	return errs
}

func (p *Profile) validateNode(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	known := map[string]string{}
	if m := p.Metadata; m != nil {
		if u, err := url.Parse(m.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "url"), m.URL, "must be http://host"))
		}
		for name := range m.Values {
			known[name] = "x"
		}
	}
	if _, err := p.Node.ExpandName(known); err != nil {
		errs = append(errs, field.Invalid(at.Child("nameFrom"), p.Node.NameFrom, err.Error()))
	}
	if _, err := p.Node.ExpandAddresses(known); err != nil {
		errs = append(errs, field.Invalid(at.Child("addressesFrom"), p.Node.AddressesFrom, err.Error()))
	}
	if _, err := p.Node.ExpandProviderID(known); err != nil {
		errs = append(errs, field.Invalid(at.Child("providerIDFrom"), p.Node.ProviderIDFrom, err.Error()))
	}
	if _, err := regexp.Compile(p.Node.NamePattern); err != nil {
		errs = append(errs, field.Invalid(at.Child("namePattern"), p.Node.NamePattern, err.Error()))
	}
	return errs
}
