package nodes

import (
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Objects shows one JSON object per change, or one YAML document, for programs.
type Objects struct {
	out    io.Writer
	encode func(any) ([]byte, error)
	err    error
}

var _ Display = (*Objects)(nil)

// NewJSONLines returns a display that writes one JSON object per line.
func NewJSONLines(out io.Writer) *Objects {
	return &Objects{out: out, encode: func(v any) ([]byte, error) {
		data, err := json.Marshal(v)
		return append(data, '\n'), err
	}}
}

// NewYAML returns a display that writes one YAML document per change.
func NewYAML(out io.Writer) *Objects {
	return &Objects{out: out, encode: func(v any) ([]byte, error) {
		data, err := yaml.Marshal(v)
		return append([]byte("---\n"), data...), err
	}}
}

// Show takes one change.
func (o *Objects) Show(s Status) { o.Write(s) }

// Tell takes what is wrong beside nodes: an object with the one field "finding".
func (o *Objects) Tell(f finding.Finding) {
	o.Write(map[string]finding.Finding{"finding": f})
}

// Write takes anything else, by its JSON fields.
func (o *Objects) Write(v any) {
	data, err := o.encode(v)
	if err == nil {
		_, err = o.out.Write(data)
	}
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("write objects: %w", err)
	}
}

// Close returns the first error there was in writing.
func (o *Objects) Close() error { return o.err }
