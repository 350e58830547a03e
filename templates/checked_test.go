package templates

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the table of docs/reference/clouds.md")

// The page ends with a table of what the profiles say.
func TestChecked_Guide(t *testing.T) {
	const file = "../docs/reference/clouds.md"
	const head = "| provider | status | compared with | how | date |\n|---|---|---|---|---|\n"
	var want strings.Builder
	want.WriteString(head)
	for _, name := range Names() {
		p, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "| %s | %s | %s | %s | %s |\n", name, p.Status, p.Checked.Version, p.Checked.How, p.Checked.Date)
	}
	guide, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, table, _ := strings.Cut(string(guide), head)
	if *update {
		if err := os.WriteFile(file, []byte(before+want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), head+table); diff != "" {
		t.Errorf("%s is not what the profiles say; `go test ./templates -run Checked -update` rewrites it (-want +got):\n%s",
			file, diff)
	}
}

// Those that the tests of this project run are pinned there: a newer program is not yet a proven one.
func TestChecked_Pinned(t *testing.T) {
	modules := map[string]string{
		"aws":       "k8s.io/cloud-provider-aws",
		"openstack": "k8s.io/cloud-provider-openstack",
		"vsphere":   "k8s.io/cloud-provider-vsphere",
		"sample":    "k8s.io/kubernetes",
	}
	for name, module := range modules {
		t.Run(name, func(t *testing.T) {
			p, err := Load(name)
			if err != nil {
				t.Fatal(err)
			}
			pins, err := os.ReadFile("../test/lab/ccm-" + name + "/go.mod")
			if err != nil {
				t.Fatal(err)
			}
			if pin := module + " " + p.Checked.Version; !strings.Contains(string(pins), pin) {
				t.Errorf("the profile says that it was checked with %s, and test/lab/ccm-%s/go.mod pins another", pin, name)
			}
		})
	}
}

func TestLoad_Unchecked(t *testing.T) {
	_, err := parse("profiles/example.yaml", []byte(valid), (*Profile).validateBuiltIn)
	checkError(t, err, "read profile profiles/example.yaml:1: checked: Required value")
}
