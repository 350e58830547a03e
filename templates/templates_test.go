package templates

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoad(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			p, err := Load(name)
			if err != nil {
				t.Fatal(err)
			}
			if p.Name != name {
				t.Errorf("profile %s.yaml calls itself %q", name, p.Name)
			}
		})
	}
}

func TestLoad_Unknown(t *testing.T) {
	tests := []struct{ name, input, want string }{
		{"a slip", "onperm", `load profile "onperm": unknown provider, did you mean "onprem"?; known are `},
		{"nothing near", "zzz", `load profile "zzz": unknown provider; known are `},
		{"empty", "", `load profile "": unknown provider; known are `},
		{"a path", "../profiles/onprem", `unknown provider`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(tt.input)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}

const valid = `
apiVersion: ccmadm.dev/v1alpha1
kind: ProviderProfile
name: example
title: Example
status: Supported
features: [Nodes]
image: {repository: example.com/ccm, tag: v1}
modes: [DaemonSet]
config: {format: ini, file: cloud.conf, required: true, requiredKeys: [Global.auth-url]}
credentials: [{key: token, required: true, why: it logs in with it}]
`

func TestParse(t *testing.T) {
	tests := []struct {
		name, old, new string
		wantErr        []string
	}{
		{
			name: "valid",
		},
		{
			name:    "malformed YAML",
			old:     "modes: [",
			new:     "modes: {",
			wantErr: []string{"read profile mine.yaml:8: yaml: line 8: "},
		},
		{
			name:    "unknown field",
			old:     "title:",
			new:     "titel:",
			wantErr: []string{`unknown field "titel"`, "title: Required value"},
		},
		{
			name:    "the same key twice",
			old:     "name: example",
			new:     "name: example\nname: other",
			wantErr: []string{`key "name" already set`},
		},
		{
			name:    "wrong kind",
			old:     "ProviderProfile",
			new:     "Provider",
			wantErr: []string{`kind: Unsupported value: "Provider"`},
		},
		{
			name:    "a name that no object may have",
			old:     "name: example",
			new:     "name: Ex_ample",
			wantErr: []string{"name: Invalid value"},
		},
		{
			name: "everything at once",
			old:  "modes: [DaemonSet]",
			new:  "modes: [Daemon]\nargs: [x, '--a=${nope}']",
			wantErr: []string{
				"modes[0]: Unsupported value",
				"args[0]: Invalid value",
				"args[1]: Invalid value",
				`no value is called "nope"`,
			},
		},
		{
			name:    "no tag",
			old:     "tag: v1",
			new:     "tag: ''",
			wantErr: []string{"read profile mine.yaml:8: image.tag: Required value"},
		},
		{
			name:    "a floating tag",
			old:     "tag: v1",
			new:     "tag: latest",
			wantErr: []string{"image.tag: Invalid value"},
		},
		{
			name:    "a table that is none",
			old:     "tag: v1",
			new:     "tags: {v1: v1, '1.36': latest}",
			wantErr: []string{"must be a minor version like 1.36", "image.tags[1.36]: Invalid value"},
		},
		{
			name:    "a secret that a static pod would show",
			old:     "modes: [DaemonSet]",
			new:     "modes: [StaticPod]\nenv: [{name: TOKEN, credential: token}]",
			wantErr: []string{"env[0].credential: Forbidden"},
		},
		{
			name:    "a credential that is none",
			old:     "modes: [DaemonSet]",
			new:     "modes: [DaemonSet]\nargs: ['--x=${file:key}']\nenv: [{name: TOKEN, credential: tokn}]",
			wantErr: []string{`no credential has the key "key"`, "env[0].credential: Invalid value"},
		},
		{
			name:    "deprecated for nothing",
			old:     "status: Supported",
			new:     "status: Deprecated",
			wantErr: []string{"instead: Required value"},
		},
		{
			name:    "ended, and yet supported, on no day",
			old:     "status: Supported",
			new:     "status: Supported\nended: in June",
			wantErr: []string{`ended: Invalid value: "in June": must be a day`, `ended: Invalid value: "in June": status must be Deprecated`},
		},
		{
			name:    "late, where one tag is for all",
			old:     "tag: v1",
			new:     "tag: v1, late: nothing is tagged yet",
			wantErr: []string{"image.late: Forbidden"},
		},
		{
			name:    "a name rule from nowhere",
			old:     "modes: [DaemonSet]",
			new:     "modes: [DaemonSet]\nnode: {nameFrom: ['${host}'], namePattern: '('}",
			wantErr: []string{"node.nameFrom: Invalid value", "node.namePattern: Invalid value"},
		},
		{
			name:    "an example that is wrong itself",
			old:     "required: true,",
			new:     "required: true, example: '[Global]',",
			wantErr: []string{"config.example: Invalid value"},
		},
		{
			name:    "a tag in the repository is no repository",
			old:     "example.com/ccm,",
			new:     "'${image}',",
			wantErr: []string{"image.repository: Invalid value"},
		},
		{
			name:    "opaque with keys",
			old:     "format: ini",
			new:     "format: opaque",
			wantErr: []string{"config.requiredKeys: Forbidden"},
		},
		{
			name:    "a switch without a file that has it",
			old:     "config: {format: ini, file: cloud.conf, required: true, requiredKeys: [Global.auth-url]}\ncredentials: [{key: token,",
			new:     "credentials: [{key: token, switch: Global.use-clouds,",
			wantErr: []string{"credentials[0].switch: Forbidden"},
		},
		{
			name:    "a rule without reason",
			old:     "credentials:",
			new:     "rbac: [{apiGroups: [''], resources: [pods], verbs: [get]}]\ncredentials:",
			wantErr: []string{"rbac[0].why: Required value"},
		},
		{
			name: "checked in an unknown way",
			old:  "modes: [DaemonSet]",
			new:  "modes: [DaemonSet]\nchecked: {version: '', how: Guessed, date: yesterday}",
			wantErr: []string{
				"checked.version: Required value",
				`checked.how: Unsupported value: "Guessed"`,
				`checked.date: Invalid value: "yesterday"`,
			},
		},
		{
			name:    "an agent that a mirror could not tell from the program",
			old:     "modes: [DaemonSet]",
			new:     "modes: [DaemonSet]\nagents: [{name: a, why: x, image: {repository: example.com/agent/ccm, tag: v1}}]",
			wantErr: []string{"agents[0].image.repository: Invalid value", "(--image-repository)"},
		},
		{
			name:    "a controller that runs sometimes",
			old:     "modes: [DaemonSet]",
			new:     "modes: [DaemonSet]\nnodeIPAM: Sometimes",
			wantErr: []string{`nodeIPAM: Unsupported value: "Sometimes"`},
		},
		{
			name:    "a wildcard",
			old:     "credentials:",
			new:     "rbac: [{apiGroups: [''], resources: ['*'], verbs: [get], why: x}]\ncredentials:",
			wantErr: []string{"rbac[0].resources[0]: Forbidden"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("mine.yaml", []byte(strings.Replace(valid, tt.old, tt.new, 1)))
			if len(tt.wantErr) == 0 && err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.wantErr {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want %q", err, want)
				}
			}
		})
	}
}

func TestExpandArgs(t *testing.T) {
	p := &Profile{Name: "example", Container: Container{Args: []string{"--a=${clusterName}", "--b=${podSubnet}", "--d"}}}
	got, err := p.ExpandArgs(Values{ClusterName: "ber1"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"--a=ber1", "--d"}, got); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
}

func TestMergeArgs(t *testing.T) {
	tests := []struct {
		name             string
		list, more, want []string
	}{
		{"one takes the place", []string{"--a=1", "--b=1"}, []string{"--c=2", "--a=2"}, []string{"--a=2", "--b=1", "--c=2"}},
		{
			"repeats of the user stay",
			[]string{"--controllers=*,-lifecycle", "--v=1"},
			[]string{"--controllers=*", "--feature-gates=A=true", "--controllers=-x", "--feature-gates=B=true"},
			[]string{"--controllers=*", "--controllers=-x", "--v=1", "--feature-gates=A=true", "--feature-gates=B=true"},
		},
		{"repeats of the list stay", []string{"--f=A", "--f=B"}, []string{"--v=1"}, []string{"--f=A", "--f=B", "--v=1"}},
		{"repeats of the list are replaced", []string{"--f=A", "--v=1", "--f=B"}, []string{"--f=C"}, []string{"--f=C", "--v=1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := MergeArgs(tt.list, tt.more)
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v, args (-want +got):\n%s", err, diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(valid))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("fuzz.yaml", data)
		if err != nil {
			return
		}
		if _, err := p.ExpandArgs(p.example()); err != nil {
			t.Errorf("accepted, but cannot be rendered: %v", err)
		}
	})
}
