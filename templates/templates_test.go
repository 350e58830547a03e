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
		{name: "valid"},
		{"malformed YAML", "modes: [", "modes: {", []string{"read profile mine.yaml:8: yaml: line 8: "}},
		{"unknown field", "title:", "titel:", []string{`unknown field "titel"`, "title: Required value"}},
		{"the same key twice", "name: example", "name: example\nname: other", []string{`key "name" already set`}},
		{"wrong kind", "ProviderProfile", "Provider", []string{`kind: Unsupported value: "Provider"`}},
		{"a name that no object may have", "name: example", "name: Ex_ample", []string{"name: Invalid value"}},
		{"everything at once", "modes: [DaemonSet]", "modes: [Daemon]\nargs: [x, '--a=${nope}']", []string{
			"modes[0]: Unsupported value", "args[0]: Invalid value", "args[1]: Invalid value", `no value is called "nope"`,
		}},
		{"no tag", "tag: v1", "tag: ''", []string{"read profile mine.yaml:8: image.tag: Required value"}},
		{"a floating tag", "tag: v1", "tag: latest", []string{"image.tag: Invalid value"}},
		{"a table that is none", "tag: v1", "tags: {v1: v1, '1.36': latest}", []string{"must be a minor version like 1.36", "image.tags[1.36]: Invalid value"}},
		{"a secret that a static pod would show", "modes: [DaemonSet]", "modes: [StaticPod]\nenv: [{name: TOKEN, credential: token}]", []string{"env[0].credential: Forbidden"}},
		{"a credential that is none", "modes: [DaemonSet]", "modes: [DaemonSet]\nargs: ['--x=${file:key}']\nenv: [{name: TOKEN, credential: tokn}]", []string{`no credential has the key "key"`, "env[0].credential: Invalid value"}},
		{"deprecated for nothing", "status: Supported", "status: Deprecated", []string{"instead: Required value"}},
		{"a name rule from nowhere", "modes: [DaemonSet]", "modes: [DaemonSet]\nnode: {nameFrom: ['${host}'], namePattern: '('}", []string{"node.nameFrom: Invalid value", "node.namePattern: Invalid value"}},
		{"an example that is wrong itself", "required: true,", "required: true, example: '[Global]',", []string{"config.example: Invalid value"}},
		{"a tag in the repository is no repository", "example.com/ccm,", "'${image}',", []string{"image.repository: Invalid value"}},
		{"opaque with keys", "format: ini", "format: opaque", []string{"config.requiredKeys: Forbidden"}},
		{"a rule without reason", "credentials:", "rbac: [{apiGroups: [''], resources: [pods], verbs: [get]}]\ncredentials:", []string{"rbac[0].why: Required value"}},
		{
			"checked in an unknown way", "modes: [DaemonSet]",
			"modes: [DaemonSet]\nchecked: {version: '', how: Guessed, date: yesterday}",
			[]string{
				"checked.version: Required value",
				`checked.how: Unsupported value: "Guessed"`,
				`checked.date: Invalid value: "yesterday"`,
			},
		},
		{
			"an agent that a mirror could not tell from the program", "modes: [DaemonSet]",
			"modes: [DaemonSet]\nagents: [{name: a, why: it helps, image: {repository: example.com/agent/ccm, tag: v1}}]",
			[]string{"agents[0].image.repository: Invalid value", "(--image-repository)"},
		},
		{"a wildcard", "credentials:", "rbac: [{apiGroups: [''], resources: ['*'], verbs: [get], why: x}]\ncredentials:", []string{"rbac[0].resources[0]: Forbidden"}},
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

func TestCheckConfig(t *testing.T) {
	tests := []struct {
		name    string
		format  Format
		path    string
		files   map[string][]byte
		wantErr []string
	}{
		{"ini with its key", INI, "", map[string][]byte{"cloud.conf": []byte("[global]\nAuth-URL = https://x\n"), "token": nil}, nil},
		{"ini with the key in another section", INI, "", map[string][]byte{"cloud.conf": []byte("[other]\nauth-url=x\n"), "token": nil}, []string{"read cloud.conf: missing or empty: Global.auth-url"}},
		{"ini with a comment", INI, "", map[string][]byte{"cloud.conf": []byte("[Global]\n#auth-url=x\n"), "token": nil}, []string{"missing or empty: Global.auth-url"}},
		{"ini with an empty value", INI, "", map[string][]byte{"cloud.conf": []byte("[Global]\nauth-url=\"\"\n"), "token": nil}, []string{"missing or empty: Global.auth-url"}},
		{"yaml with its key", YAML, "", map[string][]byte{"cloud.conf": []byte("Global: {auth-url: x}"), "token": nil}, nil},
		{"yaml without", YAML, "", map[string][]byte{"cloud.conf": []byte("Global: {}"), "token": nil}, []string{"missing or empty: Global.auth-url"}},
		{"not yaml, and no value in the message", YAML, "", map[string][]byte{"cloud.conf": []byte("secret: {"), "token": nil}, []string{"read cloud.conf: not yaml: line 1: want"}},
		{"a list where keys belong", YAML, "/root/my.conf", map[string][]byte{"cloud.conf": []byte("- secret"), "token": nil}, []string{"read /root/my.conf: not yaml: want a mapping"}},
		{"a key too few, in a file of the user's", YAML, "/root/my.conf", map[string][]byte{"cloud.conf": []byte("a: b"), "token": nil}, []string{"read /root/my.conf: missing or empty: Global.auth-url"}},
		{"nothing", INI, "", nil, []string{"provider example needs a configuration file: --cloud-config", "provider example needs credential token: it logs in with it"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Parse("mine.yaml", []byte(valid))
			if err != nil {
				t.Fatal(err)
			}
			p.Config.Format = tt.format
			err = p.CheckConfig(tt.files, tt.path)
			if len(tt.wantErr) == 0 && err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.wantErr {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want %q", err, want)
				}
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error shows the content: %v", err)
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
