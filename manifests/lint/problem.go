package lint

import (
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
)

// problem is what a rule knows about a finding.
type problem struct {
	object  *object
	at      *yaml.Node // nil: the object
	message string
	fix     func() error
	// minor is that of the cluster which the object is for, where that decides how severe it is; 0: it does not.
	minor int
	// unsure says that the program may be another one than those that the rule is about. Then it is a warning, and nothing is changed.
	unsure bool
}

func (p problem) finding(kind finding.Kind) finding.Finding {
	at := p.at
	if at == nil {
		at = p.object.node
	}
	d := p.object.doc
	f := finding.Finding{Kind: kind, Object: p.object.String(), Message: p.message}
	if kind.Since != "" {
		f = kind.ID.Ahead(p.minor, f.Object, f.Message)
	}
	if p.unsure {
		p.fix = nil
		if f.Severity == finding.SeverityError {
			f.Severity = finding.SeverityWarning
		}
	}
	f.File, f.Line, f.Column, f.Fix = d.File, d.LineOf(at), at.Column, p.fix
	return f
}
