package nodes

import (
	"encoding/json"
	"fmt"
	"io"
)

// JSONLines shows one JSON object per change, for programs.
type JSONLines struct {
	encoder *json.Encoder
	err     error
}

var _ Renderer = (*JSONLines)(nil)

// NewJSONLines returns a renderer for out.
func NewJSONLines(out io.Writer) *JSONLines { return &JSONLines{encoder: json.NewEncoder(out)} }

// Show takes one change.
func (j *JSONLines) Show(s Status) {
	if err := j.encoder.Encode(s); err != nil && j.err == nil {
		j.err = fmt.Errorf("show nodes: %w", err)
	}
}

// Close returns the first error there was in writing.
func (j *JSONLines) Close() error { return j.err }
