package templates

import (
	"strings"
	"testing"
)

func TestCheckConfig(t *testing.T) {
	const missing = "missing or empty: Global.auth-url"
	tests := []struct {
		name    string
		format  Format
		path    string
		content string
		wantErr string
	}{
		{
			name:    "ini with its key",
			format:  INI,
			content: "[global]\nAuth-URL = https://x\n",
		},
		{
			name:    "ini with a quoted value that has the signs of a comment, and a comment",
			format:  INI,
			content: "[Global] # all\nauth-url = \"https://x/#a;b\" ; keystone\n",
		},
		{
			name:    "ini with a subsection",
			format:  INI,
			content: "[Global \"eu\"]\nauth-url=x\n",
		},
		{
			name:    "ini with the key in another section",
			format:  INI,
			content: "[other]\nauth-url=x\n",
			wantErr: "read cloud.conf: " + missing,
		},
		{
			name:    "ini with the key in a comment",
			format:  INI,
			content: "[Global]\n#auth-url=x\n",
			wantErr: missing,
		},
		{
			name:    "ini with an empty value",
			format:  INI,
			content: "[Global]\nauth-url=\"\"\n",
			wantErr: missing,
		},
		{
			name:    "ini with nothing but a comment for a value",
			format:  INI,
			content: "[Global]\nauth-url = # fill this in\n",
			wantErr: missing,
		},
		{
			name:    "ini with a quote too few",
			format:  INI,
			content: "[Global]\nauth-url = \"secret\n",
			wantErr: "read cloud.conf: not ini: line 2: a quote without its end",
		},
		{
			name:    "ini with a line that goes on",
			format:  INI,
			content: "[Global]\nauth-url = x\\\n{y:z}\n",
		},
		{
			name:    "ini that is no ini",
			format:  INI,
			content: "[Global]\nauth-url: secret\n",
			wantErr: "read cloud.conf: not ini: line 2: want [Section] and key = value",
		},
		{
			name:    "yaml with its key",
			format:  YAML,
			content: "Global: {auth-url: x}",
		},
		{
			name:    "yaml without",
			format:  YAML,
			content: "Global: {}",
			wantErr: missing,
		},
		{
			name:    "not yaml, and no value in the message",
			format:  YAML,
			content: "secret: {",
			wantErr: "read cloud.conf: not yaml: line 1: want",
		},
		{
			name:    "a list where keys belong",
			format:  YAML,
			path:    "/root/my.conf",
			content: "- secret",
			wantErr: "read /root/my.conf: not yaml: want a mapping",
		},
		{
			name:    "a key too few, in a file of the user's",
			format:  YAML,
			path:    "/root/my.conf",
			content: "a: b",
			wantErr: "read /root/my.conf: " + missing,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Parse("mine.yaml", []byte(valid))
			if err != nil {
				t.Fatal(err)
			}
			p.Config.Format = tt.format
			err = p.CheckConfig(map[string][]byte{"cloud.conf": []byte(tt.content), "token": nil}, tt.path)
			checkError(t, err, tt.wantErr)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error shows the content: %v", err)
			}
		})
	}
}

func TestCheckConfig_Nothing(t *testing.T) {
	p, err := Parse("mine.yaml", []byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	err = p.CheckConfig(nil, "")
	checkError(t, err, "provider example needs a configuration file: --cloud-config")
	checkError(t, err, "provider example needs credential token: it logs in with it")
}
