package monitoring

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// scenarios are what testdata/alerts.yaml has.
type scenarios struct {
	Healthy map[string]string
	Cases   []scenario
}

// scenario is a cluster that differs from the healthy one in some series, and the alerts that fire there.
type scenario struct {
	Name   string
	Series map[string]string
	Fires  []struct {
		Alert  string
		Labels map[string]string
	}
}

func readScenarios(t *testing.T) scenarios {
	t.Helper()
	var s scenarios
	if err := yaml.UnmarshalStrict([]byte(read(t, "testdata/alerts.yaml")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// promtoolCases is the file for `promtool test rules`: every case asks for every alert, and those that it does not name stay quiet.
func promtoolCases(t *testing.T, s scenarios, rules []alert) []byte {
	t.Helper()
	var tests []any
	for _, c := range s.Cases {
		all := maps.Clone(s.Healthy)
		maps.Copy(all, c.Series)
		var input []any
		for _, series := range slices.Sorted(maps.Keys(all)) {
			input = append(input, map[string]any{"series": series, "values": all[series]})
		}
		asked, seen := []any{}, map[string]bool{}
		for _, a := range rules {
			if !seen[a.Alert] {
				seen[a.Alert] = true
				asked = append(asked, map[string]any{"eval_time": "30m", "alertname": a.Alert, "exp_alerts": c.expected(a.Alert, rules)})
			}
		}
		tests = append(tests, map[string]any{"name": c.Name, "interval": "1m", "input_series": input, "alert_rule_test": asked})
	}
	data, err := yaml.Marshal(map[string]any{"rule_files": []string{"rules.yaml"}, "evaluation_interval": "30s", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// expected is what an alert looks like, with the annotations of the rule that names those of its labels that it has.
func (c scenario) expected(name string, rules []alert) []any {
	list := []any{}
	for _, f := range c.Fires {
		if f.Alert != name {
			continue
		}
		var notes, labels map[string]string
		for _, a := range rules {
			ofNode := f.Labels["node"] != "" && f.Labels["certificate"] == ""
			if a.Alert != name || strings.Contains(a.Annotations["summary"], "$labels.node }}") != ofNode {
				continue
			}
			labels, notes = maps.Clone(a.Labels), map[string]string{}
			maps.Copy(labels, f.Labels)
			for key, text := range a.Annotations {
				for label, value := range f.Labels {
					text = strings.ReplaceAll(text, "{{ $labels."+label+" }}", value)
				}
				notes[key] = text
			}
		}
		list = append(list, map[string]any{"exp_labels": labels, "exp_annotations": notes})
	}
	return list
}

// Each alert fires in a case, and no case names an alert that is none.
func TestScenarios(t *testing.T) {
	fires := map[string]bool{}
	for _, c := range readScenarios(t).Cases {
		for _, f := range c.Fires {
			fires[f.Alert] = true
		}
		if c.Name == "healthy" && len(c.Fires)+len(c.Series) > 0 {
			t.Error("the healthy cluster is not healthy")
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] {
			t.Errorf("%s fires in no case", a.Alert)
		}
	}
	for name := range fires {
		if !slices.ContainsFunc(alerts(t), func(a alert) bool { return a.Alert == name }) {
			t.Errorf("there is no alert %s", name)
		}
	}
}
