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
		{"a slip", "onperm", `load profile "onperm": unknown provider, did you mean "onprem"?; known are onprem`},
		{"nothing near", "zzz", `load profile "zzz": unknown provider; known are onprem`},
		{"empty", "", `load profile "": unknown provider; known are onprem`},
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
		{"malformed YAML", "modes: [", "modes: {", []string{"read profile mine.yaml: ", "yaml: line "}},
		{"unknown field", "title:", "titel:", []string{`unknown field "titel"`, "title: Required value"}},
		{"the same key twice", "name: example", "name: example\nname: other", []string{`key "name" already set`}},
		{"wrong kind", "ProviderProfile", "Provider", []string{`kind: Unsupported value: "Provider"`}},
		{"a name that no object may have", "name: example", "name: Ex_ample", []string{"name: Invalid value"}},
		{"everything at once", "modes: [DaemonSet]", "modes: [Daemon]\nargs: [x, '--a=${nope}']", []string{
			"modes[0]: Unsupported value", "args[0]: Invalid value", "args[1]: Invalid value", `no value is called "nope"`,
		}},
		{"no tag", "tag: v1", "tag: ''", []string{"image.tag: Required value"}},
		{"a tag in the repository is no repository", "example.com/ccm,", "'${image}',", []string{"image.repository: Invalid value"}},
		{"opaque with keys", "format: ini", "format: opaque", []string{"config.requiredKeys: Forbidden"}},
		{"a rule without reason", "credentials:", "rbac: [{apiGroups: [''], resources: [pods], verbs: [get]}]\ncredentials:", []string{"rbac[0].why: Required value"}},
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
	p := &Profile{Name: "example", Args: []string{"--a=${clusterName}", "--b=${podSubnet}", "--d"}}
	got, err := p.ExpandArgs(Values{ClusterName: "ber1"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"--a=ber1", "--d"}, got); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
}

func TestImageRef(t *testing.T) {
	tests := []struct {
		name    string
		values  Values
		want    string
		wantErr string
	}{
		{name: "the tag follows the values", values: Values{Version: "v1.2.3"}, want: "ghcr.io/ccmadm/cloud-controller-manager:v1.2.3"},
		{name: "a complete reference wins", values: Values{Version: "v1.2.3", Image: "mine:1"}, want: "mine:1"},
		{name: "no tag", wantErr: "no value for tag"},
	}
	p, err := Load("onprem")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := p.ImageRef(tt.values)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if (err != nil || tt.wantErr != "") && (err == nil || tt.wantErr == "" || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
}

func TestCheckConfig(t *testing.T) {
	tests := []struct {
		name    string
		format  Format
		files   map[string][]byte
		wantErr []string
	}{
		{"ini with its key", INI, map[string][]byte{"cloud.conf": []byte("[global]\nAuth-URL = https://x\n"), "token": nil}, nil},
		{"ini with the key in another section", INI, map[string][]byte{"cloud.conf": []byte("[other]\nauth-url=x\n"), "token": nil}, []string{"read cloud.conf: key Global.auth-url is missing or empty"}},
		{"ini with a comment", INI, map[string][]byte{"cloud.conf": []byte("[Global]\n#auth-url=x\n"), "token": nil}, []string{"key Global.auth-url"}},
		{"ini with an empty value", INI, map[string][]byte{"cloud.conf": []byte("[Global]\nauth-url=\"\"\n"), "token": nil}, []string{"key Global.auth-url"}},
		{"yaml with its key", YAML, map[string][]byte{"cloud.conf": []byte("Global: {auth-url: x}"), "token": nil}, nil},
		{"yaml without", YAML, map[string][]byte{"cloud.conf": []byte("Global: {}"), "token": nil}, []string{"key Global.auth-url"}},
		{"not yaml, and no value in the message", YAML, map[string][]byte{"cloud.conf": []byte("secret: {"), "token": nil}, []string{"read cloud.conf: not yaml"}},
		{"nothing", INI, nil, []string{"provider example needs a configuration file cloud.conf", "provider example needs credential token: it logs in with it"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Parse("mine.yaml", []byte(valid))
			if err != nil {
				t.Fatal(err)
			}
			p.Config.Format = tt.format
			err = p.CheckConfig(tt.files)
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
		if _, err := p.ExpandArgs(example()); err != nil {
			t.Errorf("accepted, but cannot be rendered: %v", err)
		}
	})
}
