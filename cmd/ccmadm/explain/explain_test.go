package explain

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
)

func TestShow(t *testing.T) {
	rules := []finding.Kind{finding.ID("B2").Kind()}
	for _, tc := range []struct {
		name, format string
		want         []string
		wantErr      string
		wantHint     string
	}{
		{name: "nodeAgent.enabled", want: []string{"KIND:   CloudConfiguration\n", "FIELD:  nodeAgent.enabled <boolean>\n", "\nDESCRIPTION:\n  Enabled "}},
		{name: "NODEAGENT.ENABLED", want: []string{"FIELD:  nodeAgent.enabled <boolean>\n"}},
		{name: "nodeAgent", want: []string{"KIND:   CloudConfiguration\n", "FIELD:  nodeAgent <object>\n"}},
		{name: "NodeAgent", want: []string{"KIND:   NodeAgent\n\nDESCRIPTION:"}},
		{name: "nodeagents.status", want: []string{"KIND:   NodeAgent\n"}},
		{name: "AddressPool.spec.ranges", want: []string{"KIND:   AddressPool\n", "FIELD:  spec.ranges <list of string>"}},
		{name: "addresspools.spec", want: []string{"KIND:   AddressPool\n", "\n  NAME ", "\n  ranges "}},
		{name: "spec.ranges", want: []string{"KIND:   AddressPool\n"}},
		{name: "CloudConfiguration", want: []string{"KIND:   CloudConfiguration\n\nDESCRIPTION:\n", "\n  nodeAgent "}},
		{name: "machines[].match", want: []string{"KIND:   Inventory\n", "FIELD:  machines.match <object>"}},
		{name: "credentials.key", want: []string{"FIELD:  credentials.key <string> (required)\n", "\nALSO:   "}},
		{name: "mode", want: []string{"VALUE:  StaticPod\n", "VALUE:  DaemonSet\n"}},
		{name: "b2", want: []string{"B2", "\nWhy: ", "\nDo:  ", "\nDocs: " + reference + "lint.md#b2-"}},
		{name: "NeverTainted", want: []string{"\nDocs: " + reference + "findings.md#"}},
		{name: "nodeAgent.enabled", format: "json", want: []string{`"field": "nodeAgent.enabled"`, `"type": "boolean"`}},
		{name: "b2", format: "yaml", want: []string{"id: B2\n"}},
		{name: "nodeAgent.enabeld", wantErr: `explain "nodeAgent.enabeld": there is no such field and no such finding`, wantHint: "did you mean nodeAgent.enabled?"},
		{name: "AddressPool.spec.range.x.y", wantErr: "there is no such field"},
		{name: "", wantErr: "there is no such field", wantHint: "kinds are CloudConfiguration"},
		{name: "..", wantErr: "there is no such field"},
	} {
		t.Run(tc.name+" "+tc.format, func(t *testing.T) {
			var out strings.Builder
			err := Show(&out, output.Named(tc.format), tc.name, rules)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Fatalf("got %v, want %q", err, tc.wantErr)
			}
			if known, is := err.(*finding.Error); is && !strings.Contains(known.Hint, tc.wantHint) { //nolint:errorlint // it is returned as such
				t.Errorf("hint is %q, want %q", known.Hint, tc.wantHint)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
		})
	}
}

// Every field of every document can be asked for, and says something.
func TestShow_EveryField(t *testing.T) {
	list, err := documents()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, d := range list {
		kinds = append(kinds, d.kind)
		for _, path := range d.root.paths("") {
			field, err := list.find(d.kind + "." + path)
			if err != nil {
				t.Errorf("%s.%s: %v", d.kind, path, err)
				continue
			}
			if generic := strings.HasSuffix(path, "apiVersion") || strings.HasSuffix(path, "kind") || path == "metadata"; field.Description == "" && !generic {
				t.Errorf("%s.%s has no description", d.kind, path)
			}
		}
	}
	if !slices.Equal(kinds, kindNames()) {
		t.Errorf("kinds are %v, the help has %v", kinds, kindNames())
	}
}

func TestComplete(t *testing.T) {
	for typed, want := range map[string]string{
		"nodeA": "nodeAgent", "nodeAgent.e": "nodeAgent.enabled", "a1": "A19", "Addr": "AddressPool", "AddressPool.spec.r": "AddressPool.spec.ranges",
	} {
		list, directive := complete(nil, nil, typed)
		if directive != cobra.ShellCompDirectiveNoFileComp {
			t.Errorf("%q: directive %d", typed, directive)
		}
		if !slices.ContainsFunc(list, func(c cobra.Completion) bool { return strings.HasPrefix(c, want+"\t") || c == want }) {
			t.Errorf("%q: no %s in %q", typed, want, list)
		}
	}
	if list, _ := complete(nil, []string{"A19"}, ""); len(list) > 0 {
		t.Errorf("a second argument is offered: %q", list)
	}
}
