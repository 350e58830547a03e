package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"
)

// preset is what default.json says, in Renovate's words. Renovate matches with RE2, as Go does.
type preset struct {
	CustomManagers []struct {
		ManagerFilePatterns                                     []string
		MatchStrings                                            []string
		MatchStringsStrategy, CustomType                        string
		DepTypeTemplate, DatasourceTemplate, VersioningTemplate string
	}
	PackageRules []packageRule
}

type packageRule struct {
	MatchManagers, MatchDepTypes, MatchPackageNames, MatchUpdateTypes []string
	Enabled, SeparateMinorPatch                                       *bool
}

// proposal is a dependency that Renovate finds: the text that it replaces, and where it is.
type proposal struct {
	depName, currentValue, depType, replaced string
	at                                       int
}

func readPreset(t *testing.T) preset {
	t.Helper()
	data, err := os.ReadFile("../default.json")
	if err != nil {
		t.Fatal(err)
	}
	var p preset
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRenovate: the preset finds each release of the profiles, no other text, and can put a newer one in its place.
func TestRenovate(t *testing.T) {
	p, found := readPreset(t), 0
	for _, name := range Names() {
		source, err := Source(name)
		if err != nil {
			t.Fatal(err)
		}
		profile, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, u := range p.find(t, "templates/profiles/"+name+".yaml", string(source)) {
			got = append(got, u.depName+" "+u.currentValue)
			found++
			if first := strings.Index(string(source), u.replaced); first != u.at {
				t.Errorf("%s: Renovate would replace %q at %d, and not at %d", name, u.replaced, first, u.at)
			}
			raised := strings.Replace(string(source), u.replaced, strings.Replace(u.replaced, u.currentValue, "v99.98.97", 1), 1)
			if next, err := Parse(name, []byte(raised)); err != nil || !slices.Contains(releases(next, raised), u.depName+" v99.98.97") {
				t.Errorf("%s: %s cannot be raised: %v", name, u.depName, err)
			}
		}
		want := releases(profile, string(source))
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if found < 60 {
		t.Errorf("%d releases were found, want those of all profiles", found)
	}
}

// TestRenovate_KeepsMinors: an update does not bring a release that is for another minor of Kubernetes.
func TestRenovate_KeepsMinors(t *testing.T) {
	p, seen := readPreset(t), map[string]int{}
	for _, name := range Names() {
		profile, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(profile.Image.Tags) == 0 {
			continue
		}
		kind := bound(t, profile.Image.Tags)
		seen[kind]++
		for _, of := range []struct {
			update          string
			allowed, denied bool // with releases of this kind
		}{
			{"patch", true, false},
			{"minor", kind == "major", kind == "minor"},
			{"major", false, kind != ""},
		} {
			got := p.enabled("manager-of-a-minor", profile.Image.Repository, of.update)
			if of.allowed && !got || of.denied && got {
				t.Errorf("%s: Kubernetes' minor is the %s number of a release, and an update of kind %s is proposed: %v", name, kind, of.update, got)
			}
		}
	}
	if seen["minor"] < 5 || seen["major"] < 1 || seen[""] < 1 {
		t.Errorf("profiles by the number that is Kubernetes' minor: %v, want some of each", seen)
	}
	if !p.enabled("manager", "example.com/any", "major") {
		t.Error("a release for all versions of Kubernetes is not raised")
	}
}

// bound says which number of each release is the minor of Kubernetes: minor, major, or none.
func bound(t *testing.T, tags map[string]string) string {
	t.Helper()
	minor, major := true, true
	for kubernetes, tag := range tags {
		k, err := version.ParseGeneric(kubernetes)
		if err != nil {
			t.Fatal(err)
		}
		v, err := version.ParseGeneric(tag)
		if err != nil {
			t.Fatal(err)
		}
		minor, major = minor && v.Minor() == k.Minor(), major && v.Major() == k.Minor()
	}
	switch {
	case minor:
		return "minor"
	case major:
		return "major"
	}
	return ""
}

// releases are images with a version, as the program reads the profile. A commit and the version of ccmadm are none. Agents
// that share the tags of the manager by an anchor are raised with it.
func releases(p *Profile, source string) []string {
	images := []Image{p.Image}
	for _, a := range p.Agents {
		if len(a.Image.Tags) == 0 || !strings.Contains(source, "tags: *") {
			images = append(images, a.Image)
		}
	}
	if p.NodeAgent != nil {
		images = append(images, p.NodeAgent.Image)
	}
	var list []string
	for _, i := range images {
		for _, tag := range slices.Concat([]string{i.Tag}, slices.Collect(maps.Values(i.Tags))) {
			if regexp.MustCompile(`^v?\d+\.`).MatchString(tag) {
				list = append(list, i.Repository+" "+tag)
			}
		}
	}
	return list
}

// find does what Renovate does with a file: all matches of each string, or of the second one in those of the first.
func (p preset) find(t *testing.T, path, source string) []proposal {
	t.Helper()
	var list []proposal
	for _, m := range p.CustomManagers {
		if m.CustomType != "regex" || m.DatasourceTemplate != "docker" || m.VersioningTemplate != "semver" {
			t.Fatalf("manager %+v is none of what is tested", m)
		}
		if !slices.ContainsFunc(m.ManagerFilePatterns, func(pattern string) bool {
			expression := regexp.MustCompile(strings.Trim(pattern, "/"))
			return expression.MatchString(path) && !expression.MatchString("docs/profiles.md")
		}) {
			t.Fatalf("%s is none of the files of %v", path, m.ManagerFilePatterns)
		}
		if want := map[string]int{"": 1, "recursive": 2}[m.MatchStringsStrategy]; len(m.MatchStrings) != want {
			t.Fatalf("strategy %q with %d strings", m.MatchStringsStrategy, len(m.MatchStrings))
		}
		list = append(list, matches(source, 0, m.MatchStrings, proposal{depType: m.DepTypeTemplate})...)
	}
	return list
}

func matches(text string, at int, patterns []string, so proposal) []proposal {
	if len(patterns) == 0 {
		so.replaced, so.at = text, at
		return []proposal{so}
	}
	var list []proposal
	expression := regexp.MustCompile(patterns[0])
	for _, m := range expression.FindAllStringSubmatchIndex(text, -1) {
		next := so
		for i, name := range expression.SubexpNames() {
			switch {
			case name == "depName":
				next.depName = text[m[2*i]:m[2*i+1]]
			case name == "currentValue":
				next.currentValue = text[m[2*i]:m[2*i+1]]
			case name != "":
				panic(fmt.Sprintf("group %s is none of what is tested", name))
			}
		}
		list = append(list, matches(text[m[0]:m[1]], at+m[0], patterns[1:], next)...)
	}
	return list
}

// enabled applies the rules in their order. Patch releases are looked for beside minor ones only where they are separate.
func (p preset) enabled(depType, name, kind string) bool {
	enabled, separate := true, false
	for _, r := range p.PackageRules {
		if !slices.Contains(r.MatchManagers, "custom.regex") || !slices.Contains(r.MatchDepTypes, depType) ||
			r.MatchPackageNames != nil && !slices.Contains(r.MatchPackageNames, name) ||
			r.MatchUpdateTypes != nil && !slices.Contains(r.MatchUpdateTypes, kind) {
			continue
		}
		if r.Enabled != nil {
			enabled = *r.Enabled
		}
		if r.SeparateMinorPatch != nil {
			separate = *r.SeparateMinorPatch
		}
	}
	return enabled && separate
}
