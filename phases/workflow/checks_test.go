package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
)

// What the first check says, later ones need not say again; unless the user ignores the first.
func TestRunChecks(t *testing.T) {
	fails := func(err error) func(context.Context, *Run) error {
		return func(context.Context, *Run) error { return err }
	}
	noProvider := finding.Usagef("no provider").WithHint("fix it") // found out once, so it is one and the same
	checks := []Check{
		{finding.CheckProvider, fails(noProvider)},
		{finding.CheckNodeName, fails(noProvider)},
		{finding.CheckWritable, fails(finding.Usagef("the disk is full").WithHint("fix it"))},
		{finding.CheckKubeletFlags, func(context.Context, *Run) error { return nil }},
	}
	tests := []struct {
		name   string
		ignore []string
		want   string
	}{
		{"all", nil, "preflight: Provider: no provider\nWritable: the disk is full"},
		{"one ignored", []string{"provider"}, "preflight: NodeName: no provider\nWritable: the disk is full"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			err := RunChecks(t.Context(), NewRun(nil, Inputs{Request: Request{IgnorePreflightErrors: tt.ignore}}, Streams{Out: &out}, ""), checks)
			var known *finding.Error
			if !errors.As(err, &known) {
				t.Fatalf("got %v", err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			const hint = "fix it\nnothing was changed; --ignore-preflight-errors=NAME makes a check a warning"
			if diff := cmp.Diff(hint, known.Hint); diff != "" {
				t.Errorf("hint (-want +got):\n%s", diff)
			}
		})
	}
}

// What cannot be ignored is not followed by the flag that ignores.
func TestRunChecks_Refused(t *testing.T) {
	refused := func(context.Context, *Run) error {
		return finding.Refusedf("another cluster").WithHint("leave it out")
	}
	o := Inputs{Request: Request{IgnorePreflightErrors: []string{"all"}}}
	r := NewRun(nil, o, Streams{Out: new(bytes.Buffer)}, "")
	err := RunChecks(t.Context(), r, []Check{{finding.CheckClusterRecord, refused}})
	var known *finding.Error
	if !errors.As(err, &known) || known.Code != finding.ExitRefused {
		t.Fatalf("got %v", err)
	}
	if want := "leave it out\nnothing was changed"; known.Hint != want {
		t.Errorf("hint %q, want %q", known.Hint, want)
	}
}

// -o yaml has the fields of -o json: failed checks, and the steps of a change.
func TestObjects_YAML(t *testing.T) {
	values := func(output string) any {
		var out bytes.Buffer
		r := NewRun(nil, Inputs{Output: output}, Streams{Out: &out, Err: io.Discard}, "")
		fails := func(context.Context, *Run) error { return finding.Preflightf("no room").WithHint("make some") }
		_ = RunChecks(t.Context(), r, []Check{{finding.CheckWritable, fails}})
		r.Event(Event{Node: "w1", Step: "Done", Seconds: 1.5, Done: 1, Of: 2})
		text := out.String()
		if output == "json" { // YAML is asked for documents, JSON is one after the other
			text = ""
			for decoder := json.NewDecoder(&out); decoder.More(); {
				var value json.RawMessage
				if err := decoder.Decode(&value); err != nil {
					t.Fatal(err)
				}
				text += "---\n" + string(value) + "\n"
			}
		}
		var list []any
		for document := range strings.SplitSeq(strings.TrimPrefix(text, "---\n"), "---\n") {
			var value any
			if err := yaml.Unmarshal([]byte(document), &value); err != nil {
				t.Fatalf("%v in %s", err, document)
			}
			list = append(list, value)
		}
		return list
	}
	asJSON := values("json")
	if list, _ := asJSON.([]any); len(list) != 2 {
		t.Fatalf("json has %v", asJSON)
	}
	if diff := cmp.Diff(asJSON, values("yaml")); diff != "" {
		t.Errorf("yaml (-json +yaml):\n%s", diff)
	}
}
