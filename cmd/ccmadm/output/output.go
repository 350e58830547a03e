// Package output is the flag -o of commands: the formats that a command has, their completion, and the formats for programs.
//
// Start at [Format]. JSON is written as it always was, a list as one object a line; YAML has the same objects, a document
// each.
//
// Reads: nothing. Writes: to the io.Writer that it is given.
// Running it twice: the same value gives the same text.
// It will not: write tables; package table does.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Names of formats that several commands have.
const (
	Text = "text"
	Wide = "wide"
	JSON = "json"
	YAML = "yaml"
)

// Format is what -o says, for one command.
type Format struct {
	value   string
	formats []string
}

// Named is a format by its name, for a caller without a command.
func Named(name string) *Format { return &Format{value: name} }

// Declare adds -o to a command. The first format is the default.
func (f *Format) Declare(cmd *cobra.Command, formats ...string) {
	f.formats = formats
	Var(cmd, &f.value, strings.Join(formats, ", "), formats...)
}

// Check refuses a format that the command does not have.
func (f *Format) Check() error { return Check(f.value, f.formats...) }

// Is tells whether it is one of the formats.
func (f *Format) Is(formats ...string) bool { return slices.Contains(formats, f.value) }

// String is the format by its name.
func (f *Format) String() string { return f.value }

// Write writes a result: as JSON or YAML where these were asked for, with all else as text does.
func (f *Format) Write(out io.Writer, objects func(io.Writer) error, text func() error) error {
	switch f.value {
	case JSON:
		return objects(out)
	case YAML:
		return writeYAML(out, objects)
	}
	return text()
}

// Var adds -o to a command that keeps its value itself. The first format is the default.
func Var(cmd *cobra.Command, value *string, usage string, formats ...string) {
	cmd.Flags().StringVarP(value, "output", "o", formats[0], usage)
	choices := slices.DeleteFunc(slices.Clone(formats), func(name string) bool { return name == "" })
	// It fails only for a flag that is not there, or that has a completion.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
}

// Check refuses a value that is none of the formats.
func Check(value string, formats ...string) error {
	if slices.Contains(formats, value) {
		return nil
	}
	return finding.Usagef("read --output: %q is none of %s", value, strings.Trim(strings.Join(formats, ", "), ", "))
}

// Object writes one value as JSON.
func Object(value any) func(io.Writer) error {
	return func(out io.Writer) error {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	}
}

// Line writes one value as JSON in a line.
func Line(value any) func(io.Writer) error {
	return func(out io.Writer) error { return json.NewEncoder(out).Encode(value) }
}

// Lines writes a list as one JSON object a line.
func Lines[T any](list []T) func(io.Writer) error {
	return func(out io.Writer) error {
		encoder := json.NewEncoder(out)
		for _, item := range list {
			if err := encoder.Encode(item); err != nil {
				return err
			}
		}
		return nil
	}
}

// Findings writes those of a report.
func Findings(list []finding.Finding) func(io.Writer) error {
	return func(out io.Writer) error { return finding.WriteJSON(out, list) }
}

// writeYAML writes each JSON value as a document. Field names are the same in both.
func writeYAML(out io.Writer, objects func(io.Writer) error) error {
	var all bytes.Buffer
	if err := objects(&all); err != nil {
		return err
	}
	separator := ""
	for decoder := json.NewDecoder(&all); ; separator = "---\n" {
		var value json.RawMessage
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("encode YAML: %w", err)
		}
		document, err := yaml.JSONToYAML(value)
		if err != nil {
			return fmt.Errorf("encode YAML: %w", err)
		}
		if _, err := io.WriteString(out, separator+string(document)); err != nil {
			return err
		}
	}
}
