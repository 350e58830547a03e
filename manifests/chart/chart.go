// Package chart writes the Helm chart from what package manifests renders, so that the two cannot differ.
//
// Start at [Files]. For each provider, all combinations of the switches are rendered; where the objects differ, the template has a
// condition (conditions.go). Texts of users are rendered as tokens, which become values of the chart (tokens.go). The files beside
// this one are what is the same for all providers.
//
// Reads: profiles, and what they render to. Writes: nothing; [Files] returns the chart. The same input gives the same bytes.
// It will not: have objects of its own, or render what refers to files of machines, as static pods do.
package chart

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/templates"
)

//go:embed files/*.yaml files/*.tpl files/*.txt
var files embed.FS

// Files returns the chart by the names of its files. Version is ccmadm's, as v1.2.3: images of its own programs have it, and the
// chart has the part that is a semantic version.
func Files(version string) (map[string][]byte, error) {
	chart := map[string][]byte{}
	for name, to := range map[string]string{
		"values.yaml": "values.yaml", "helpers.tpl": "templates/_helpers.tpl", "NOTES.txt": "templates/NOTES.txt",
	} {
		data, err := fs.ReadFile(files, path.Join("files", name))
		if err != nil {
			return nil, err
		}
		chart[to] = data
	}
	about, err := fs.ReadFile(files, "files/Chart.yaml")
	if err != nil {
		return nil, err
	}
	filled := strings.NewReplacer("VERSION", chartVersion(version), "RELEASE", version, "OLDEST", minors.Oldest())
	chart["Chart.yaml"] = []byte(filled.Replace(string(about)))
	var offered []*templates.Profile
	for _, name := range templates.Names() {
		p, err := templates.Load(name)
		if err != nil {
			return nil, err
		}
		if len(Modes(p)) == 0 {
			continue
		}
		offered = append(offered, p)
		text, err := provider(p, version)
		if err != nil {
			return nil, fmt.Errorf("write the template of provider %s: %w", name, err)
		}
		chart["templates/"+name+".yaml"] = []byte(text)
	}
	if chart["templates/monitoring.yaml"], err = monitoring(); err != nil {
		return nil, err
	}
	if chart["values.schema.json"], err = json.MarshalIndent(schema(offered), "", "  "); err != nil {
		return nil, fmt.Errorf("encode the schema of values: %w", err)
	}
	return chart, nil
}

// chartVersion is what Helm takes for a version: builds that are no release have none.
func chartVersion(version string) string {
	if number, is := strings.CutPrefix(version, "v"); is && strings.Count(number, ".") >= 2 {
		return number
	}
	return "0.0.0-dev"
}

// Modes are those that the chart offers for a provider: all but static pods, which are files on machines. The first is the default.
func Modes(p *templates.Profile) []templates.Mode {
	return slices.DeleteFunc(slices.Clone(p.Modes), func(m templates.Mode) bool { return m == templates.StaticPod })
}

// monitoring is what `ccmadm render --monitoring` prints, with the user's labels.
func monitoring() ([]byte, error) {
	const token = "ccmadm-chart-labels"
	objects, err := manifests.Monitoring(map[string]string{token: "x"})
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("{{- if .Values.monitoring.enabled }}\n")
	for _, o := range objects {
		text, err := encode(o)
		if err != nil {
			return nil, err
		}
		const labels = "    {{- with .Values.monitoring.labels }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n"
		text = strings.ReplaceAll(text, "    "+token+": x\n", labels)
		b.WriteString("---\n" + text)
	}
	b.WriteString("{{- end }}\n")
	return []byte(b.String()), nil
}
