package templates

import (
	"net/url"
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (p *Profile) validateFiles() field.ErrorList {
	var errs field.ErrorList
	if p.Config != nil {
		errs = append(errs, p.Config.validate(field.NewPath("config"))...)
	}
	for i, c := range p.Credentials {
		at := field.NewPath("credentials").Index(i)
		errs = append(errs, c.validate(at)...)
		if c.Switch != "" && (p.Config == nil || p.Config.Format == Opaque) {
			errs = append(errs, field.Forbidden(at.Child("switch"), "there is no configuration file with keys"))
		}
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
		for _, msg := range validation.IsDNS1123Subdomain(c.Inventory.ConfigMap) {
			errs = append(errs, field.Invalid(path.Child("inventory", "configMap"), c.Inventory.ConfigMap, msg))
		}
		for _, msg := range validation.IsConfigMapKey(c.Inventory.Key) {
			errs = append(errs, field.Invalid(path.Child("inventory", "key"), c.Inventory.Key, msg))
		}
		if c.Inventory.Setting == "" || c.Format != YAML {
			errs = append(errs, field.Invalid(path.Child("inventory", "setting"), c.Inventory.Setting,
				"must be a key of a YAML file"))
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
