// Package monitoring tries what `ccmadm render --monitoring` prints, as the golden file of package manifests has it: the alerts by
// Prometheus' own rule tests, and the queries by its parser. It is a module of its own, so that Prometheus is none of the product's.
//
// Start at TestAlerts. Reads: manifests/testdata/TestMonitoring.golden, docs/reference/metrics.md, docs/tasks/monitoring.md. Writes:
// promtool, to the directory of -promtool, once.
package monitoring

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

var promtool = flag.String("promtool", "", "the program promtool, which test/monitoring/promtool.sh fetches")

// alert is one rule of the PrometheusRule.
type alert struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

// rendered is a document of the golden file.
type rendered struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	Data map[string]string
}

func documents(t *testing.T) (list []rendered, rules []byte) {
	t.Helper()
	for text := range strings.SplitSeq(read(t, "../../manifests/testdata/TestMonitoring.golden"), "\n---\n") {
		var d rendered
		if err := yaml.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
		if d.Kind == "PrometheusRule" {
			var whole struct{ Spec any }
			if err := yaml.Unmarshal([]byte(text), &whole); err != nil {
				t.Fatal(err)
			}
			var err error
			if rules, err = yaml.Marshal(whole.Spec); err != nil {
				t.Fatal(err)
			}
		}
	}
	return list, rules
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func alerts(t *testing.T) []alert {
	t.Helper()
	list, _ := documents(t)
	for _, d := range list {
		if d.Kind == "PrometheusRule" {
			return d.Spec.Groups[0].Rules
		}
	}
	t.Fatal("there is no PrometheusRule")
	return nil
}

// Each alert fires in its case, and stays quiet in all others, by `promtool test rules`.
func TestAlerts(t *testing.T) {
	_, rules := documents(t)
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "cases.yaml"}} {
		if out, err := runPromtool(t, rules, args...); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// A rule that is broken is found: otherwise the test above says nothing.
func TestAlerts_Broken(t *testing.T) {
	_, rules := documents(t)
	for what, change := range map[string][2]string{
		"a limit that is never reached": {"node_uninitialized_seconds) > 300", "node_uninitialized_seconds) > 30000"},
		"a limit that is always":        {"services_unannounced) > 0", "services_unannounced) >= 0"},
	} {
		broken := bytes.Replace(rules, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(broken, rules) {
			t.Fatalf("%s: the rule to break is not there", what)
		}
		if out, err := runPromtool(t, broken, "test", "rules", "cases.yaml"); err == nil {
			t.Errorf("%s is not found:\n%s", what, out)
		}
	}
}

// runPromtool runs it in a directory with rules and cases.
func runPromtool(t *testing.T, rules []byte, args ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	cases := promtoolCases(t, readScenarios(t), alerts(t))
	for name, data := range map[string][]byte{"rules.yaml": rules, "cases.yaml": cases} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.CommandContext(t.Context(), *promtool, args...)
	run.Dir = dir
	out, err := run.CombinedOutput()
	return string(out), err
}

// queries are those of alerts and of dashboards, by where they are.
func queries(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, a := range alerts(t) {
		all["alert "+a.Alert+" "+a.Expr] = a.Expr
	}
	boards := 0
	list, _ := documents(t)
	for _, d := range list {
		if d.Kind != "ConfigMap" {
			continue
		}
		boards++
		var board struct {
			Title  string
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal([]byte(d.Data[d.Metadata.Name+".json"]), &board); err != nil {
			t.Fatalf("%s: %v", d.Metadata.Name, err)
		}
		for _, p := range board.Panels {
			all["panel "+board.Title+": "+p.Title] = p.Targets[0].Expr
		}
	}
	if boards != 2 {
		t.Errorf("there are %d dashboards, want 2", boards)
	}
	return all
}

// foreign are metrics of other programs: upstream's election, and kube-state-metrics.
var foreign = []string{"leader_election_master_status", "kube_node_spec_taint"}

// Every query can be parsed, and asks for metrics and values of labels that the programs have, by the reference, which a test of
// package docs compares with the code. Every metric of the reference is asked for.
func TestQueries(t *testing.T) {
	known, asked := reference(t), map[string]bool{}
	p := parser.NewParser(parser.Options{})
	for where, query := range queries(t) {
		expr, err := p.ParseExpr(query)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			selector, is := node.(*parser.VectorSelector)
			if !is {
				return nil
			}
			asked[base(selector.Name)] = true
			row, there := known[base(selector.Name)]
			if !there && !slices.Contains(foreign, selector.Name) {
				t.Errorf("%s: no program has %s", where, selector.Name)
			}
			for _, m := range selector.LabelMatchers {
				if there && m.Name != labels.MetricName && m.Name != "reason" && !strings.Contains(row, "`"+m.Name+"`") {
					t.Errorf("%s: %s has no label %s", where, selector.Name, m.Name)
				}
				for _, value := range strings.Split(m.Value, "|") {
					if there && m.Name == "state" && !strings.Contains(row, "`"+value+"`") {
						t.Errorf("%s: label %s of %s is never %s", where, m.Name, selector.Name, value)
					}
				}
			}
			return nil
		})
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !asked[name] {
			t.Errorf("%s is in no alert and on no dashboard", name)
		}
	}
}

// base is the name without what a histogram adds.
func base(name string) string {
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if strings.HasPrefix(name, "ccmadm_") && strings.HasSuffix(name, suffix) {
			return strings.TrimSuffix(name, suffix)
		}
	}
	return name
}

// reference has the rows of the metrics, by name.
func reference(t *testing.T) map[string]string {
	t.Helper()
	rows := map[string]string{}
	page := read(t, "../../docs/reference/metrics.md")
	for _, m := range regexp.MustCompile("(?m)^\\| `(ccmadm_\\w+)` .*$").FindAllStringSubmatch(page, -1) {
		rows[m[1]] = m[0]
	}
	return rows
}

// The page has a row for each alert, with its command, and no other.
func TestPage(t *testing.T) {
	page := read(t, "../../docs/tasks/monitoring.md")
	names := map[string]bool{}
	for _, a := range alerts(t) {
		names[a.Alert] = true
		row := regexp.MustCompile("(?m)^\\| `" + a.Alert + "` \\|.*$").FindString(page)
		command := a.Annotations["command"]
		command, _, _ = strings.Cut(command, " {{")
		if row == "" || !strings.Contains(row, command) {
			t.Errorf("docs/tasks/monitoring.md has no row for %s with `%s`", a.Alert, command)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" || a.Labels["severity"] == "" {
			t.Errorf("%s lacks summary, description or severity", a.Alert)
		}
	}
	if got := strings.Count(page, "\n| `Ccmadm"); got != len(names) {
		t.Errorf("docs/tasks/monitoring.md has %d rows of alerts, want %d", got, len(names))
	}
}
