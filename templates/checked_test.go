package templates

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/minors"
)

//go:generate go test . -run ^TestChecked_Guide$ -count=1 -update

var update = flag.Bool("update", false, "rewrite the table of docs/reference/clouds.md")

// The page ends with a table of what the profiles say: the release for each minor version of Kubernetes that is supported, and
// how the profile was checked.
func TestChecked_Guide(t *testing.T) {
	const file = "../docs/reference/clouds.md"
	const head = "| provider | status | Kubernetes | release | compared with | how | date |\n|---|---|---|---|---|---|---|\n"
	var want strings.Builder
	want.WriteString(head)
	for _, name := range Names() {
		p := builtIn(t, name)
		for _, r := range releasesOf(p) {
			c := p.Checked
			fmt.Fprintf(&want, "| %s | %s | %s | %s | %s | %s | %s |\n", name, p.Status, r.minors, r.tag, c.Version, c.How, c.Date)
		}
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
		t.Errorf("%s is not what the profiles say; run `make generate` (-want +got):\n%s", file, diff)
	}
}

type release struct{ minors, tag string }

// releasesOf lists what a profile runs in the supported minor versions, the newest first.
func releasesOf(p *Profile) []release {
	switch i := p.Image; {
	case i.Repository == "" || i.Tag == "" && len(i.Tags) == 0:
		return []release{{"any", "you name it"}}
	case i.Tag == "${version}":
		return []release{{"any", "that of ccmadm"}}
	case i.Tag != "":
		return []release{{"any", i.Tag}}
	}
	var list []release
	for _, minor := range slices.Backward(minors.Supported()) {
		tag, known := p.Image.Tags[minor]
		if !known {
			newest := p.Image.Minors()[0]
			tag = fmt.Sprintf("none known; %s for %s", p.Image.Tags[newest], newest)
		}
		list = append(list, release{minor, tag})
	}
	return list
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
