package manifests

import (
	"testing"

	"github.com/ccmadm/ccmadm/templates"
)

// TestCloudConfigSecret_InUse: what is in the cluster is applied again, even if a file that it names came to the machines in another way.
func TestCloudConfigSecret_InUse(t *testing.T) {
	p, err := templates.Load("openstack")
	if err != nil {
		t.Fatal(err)
	}
	const conf = "[Global]\nuse-clouds = true\nclouds-file = " + templates.ConfigDir + "/clouds.yaml\n"
	if _, err := CloudConfigSecret(p, map[string][]byte{"cloud.conf": []byte(conf)}); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestConfigHash(t *testing.T) {
	base := map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	tests := []struct {
		name  string
		files map[string][]byte
		same  bool
	}{
		{
			name:  "the same content",
			files: map[string][]byte{"b": []byte("2"), "a": []byte("1")},
			same:  true,
		},
		{
			name:  "another value",
			files: map[string][]byte{"a": []byte("1"), "b": []byte("3")},
			same:  false,
		},
		{
			name:  "values exchanged",
			files: map[string][]byte{"a": []byte("2"), "b": []byte("1")},
			same:  false,
		},
		{
			name:  "content that moved to another file",
			files: map[string][]byte{"a": []byte("12"), "b": nil},
			same:  false,
		},
		{
			name: "nothing",
			same: false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if same := ConfigHash(base) == ConfigHash(tt.files); same != tt.same {
				t.Errorf("same hash: %t, want %t", same, tt.same)
			}
		})
	}
}
