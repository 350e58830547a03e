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
}

func (p problem) finding(kind finding.Kind) finding.Finding {
	at := p.at
	if at == nil {
		at = p.object.node
	}
	d := p.object.doc
	return finding.Finding{
		Kind: kind, File: d.File, Line: d.LineOf(at), Column: at.Column,
		Object: p.object.String(), Message: p.message, Fix: p.fix,
	}
}
