package apply

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/ccmadm/ccmadm/templates"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func values(mode templates.Mode) templates.Values {
	return templates.Values{
		Mode: mode, Version: "v1.2.3", ClusterName: "ber1-prod", KubernetesVersion: "v1.36.3", NodeLifecycle: true,
		Endpoint: "https://198.18.0.10:6443", PodSubnet: "10.244.0.0/16",
	}
}

func onprem(t *testing.T) *templates.Profile {
	t.Helper()
	p, err := templates.Load("onprem")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// foreign is a provider that uses everything onprem does not.
func foreign(t *testing.T) *templates.Profile {
	t.Helper()
	file := filepath.Join("..", "testdata", "foreign-profile.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := templates.Parse(file, data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
