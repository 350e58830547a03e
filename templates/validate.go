package templates

import (
	"path"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (p *Profile) validate() field.ErrorList {
	at := field.NewPath
	errs := field.ErrorList{}
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
	errs = append(errs, p.validateEnded(at("ended"))...)
	if p.Checked != nil {
		errs = append(errs, p.Checked.validate(at("checked"))...)
	}
	if p.Rehearsal != nil {
		errs = append(errs, p.Rehearsal.validate(at("rehearsal"))...)
	}
	errs = append(errs, listOf(at("features"), p.Features, Nodes, Lifecycle, Services, Routes)...)
	errs = append(errs, listOf(at("modes"), p.Modes, StaticPod, DaemonSet, Deployment)...)
	errs = append(errs, p.validateContainer(nil, p.Container, p.Supports(StaticPod))...)
	errs = append(errs, p.validateArgs(at("routesArgs"), p.RoutesArgs)...)
	errs = append(errs, p.validateArgs(at("servingArgs"), p.ServingArgs)...)
	if p.NodeIPAM != "" {
		errs = append(errs, oneOf(at("nodeIPAM"), p.NodeIPAM, OnByDefault, OffByDefault)...)
	}
	if p.Health != (Health{}) {
		errs = append(errs, p.Health.validate(at("health"))...)
	}
	errs = append(errs, p.validateAgents(at("agents"))...)
	errs = append(errs, p.NodeAgent.validate(at("nodeAgent"), p)...)
	errs = append(errs, p.validateFiles()...)
	errs = append(errs, validateRules(at("rbac"), p.RBAC)...)
	return append(errs, p.validateNode(at("node"))...)
}

func (p *Profile) validateEnded(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Ended == "" {
		return nil
	}
	if _, err := time.Parse(time.DateOnly, p.Ended); err != nil {
		errs = append(errs, field.Invalid(at, p.Ended, "must be a day like 2026-06-30"))
	}
	if p.Status != Deprecated {
		errs = append(errs, field.Invalid(at, p.Ended, "status must be Deprecated, and instead must name the successor"))
	}
	return errs
}

// validateBuiltIn asks of the catalogue what a user's own profile need not say.
func (p *Profile) validateBuiltIn() field.ErrorList {
	errs := p.validate()
	if p.Checked == nil {
		errs = append(errs, field.Required(field.NewPath("checked"), "say how the profile was compared with the program"))
	}
	if p.Rehearsal == nil {
		errs = append(errs, field.Required(field.NewPath("rehearsal"), "say whether it can be rehearsed"))
	}
	return errs
}

// validateAgents also keeps images apart in a mirror, which knows them by the last part of their names.
func (p *Profile) validateAgents(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]string{path.Base(p.Image.Repository): "the cloud-controller-manager"}
	for i, a := range p.Agents {
		errs = append(errs, p.validateAgent(at.Index(i), a)...)
		name := path.Base(a.Image.Repository)
		if other, ok := seen[name]; ok {
			errs = append(errs, field.Invalid(at.Index(i).Child("image", "repository"), a.Image.Repository,
				"in a mirror (--image-repository) it would have the name of "+other))
		}
		seen[name] = "agent " + a.Name
	}
	return errs
}

func (p *Profile) validateAgent(at *field.Path, a Agent) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(a.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), a.Name, msg))
	}
	if a.Why == "" {
		errs = append(errs, field.Required(at.Child("why"), "say what it does on every node"))
	}
	errs = append(errs, p.validateContainer(at, a.Container, false)...)
	return append(errs, validateRules(at.Child("rbac"), a.RBAC)...)
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
	lists := []struct {
		name string
		list []string
	}{
		{"apiGroups", r.APIGroups},
		{"resources", r.Resources},
		{"verbs", r.Verbs},
	}
	for _, l := range lists {
		if len(l.list) == 0 {
			errs = append(errs, field.Required(path.Child(l.name), ""))
		}
		if i := slices.Index(l.list, "*"); i >= 0 {
			errs = append(errs, field.Forbidden(path.Child(l.name).Index(i),
				"name what is needed: nothing is granted wholesale"))
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

func (a *NodeAgent) validate(at *field.Path, p *Profile) field.ErrorList {
	if a == nil {
		return nil
	}
	errs := a.Image.validate(at.Child("image"), p)
	if a.Image.Repository == "" {
		errs = append(errs, field.Required(at.Child("image", "repository"), "name the image"))
	}
	return append(errs, validateRules(at.Child("rbac"), a.RBAC)...)
}
