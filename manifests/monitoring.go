package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// monitoringFiles are the parts of [Monitoring]: what is scraped, alerts, and dashboards.
const (
	scrapeFile     = "monitoring/scrape.yaml"
	rulesFile      = "monitoring/rules.yaml"
	dashboardsFile = "monitoring/dashboards.yaml"
)

// rulesName is that of the PrometheusRule and of its group, and runbook is where each alert has a row.
const (
	rulesName = "ccmadm"
	runbook   = "https://github.com/ccmadm/ccmadm/blob/main/docs/tasks/monitoring.md#alerts"
)

// dashboardLabel is what the sidecar of Grafana's chart looks for.
const dashboardLabel = "grafana_dashboard"

// Monitoring returns what prometheus-operator and Grafana read: a ServiceMonitor for the managers, with its Service, PodMonitors for
// the programs on nodes, a PrometheusRule, and two dashboards in ConfigMaps. The labels are those by which a Prometheus selects
// ServiceMonitors and rules; PodMonitors have label [v1alpha1.ScraperLabel] instead, since only a scraper on the node reaches what
// they name.
func Monitoring(labels map[string]string) ([]*Object, error) {
	list, err := scraped(labels)
	if err != nil {
		return nil, fmt.Errorf("render monitoring: %w", err)
	}
	rules, err := alertRules(labels)
	if err != nil {
		return nil, fmt.Errorf("render monitoring: %w", err)
	}
	boards, err := dashboards()
	if err != nil {
		return nil, fmt.Errorf("render monitoring: %w", err)
	}
	return append(append(list, rules), boards...), nil
}

func scraped(labels map[string]string) ([]*Object, error) {
	data, err := files.ReadFile(scrapeFile)
	if err != nil {
		return nil, err
	}
	var list []*Object
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)); ; {
		o := &Object{}
		switch err := decoder.Decode(&o.Object); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("decode %s: %w", scrapeFile, err)
		}
		switch o.GetKind() {
		case "PodMonitor":
			ours(o, map[string]string{v1alpha1.ScraperLabel: v1alpha1.ScraperOnNode})
		case "ServiceMonitor":
			ours(o, labels)
		default:
			ours(o, nil)
		}
		list = append(list, o)
	}
}

// ours puts an object into our namespace, with our label and those.
func ours(o *Object, labels map[string]string) {
	all := o.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	all[v1alpha1.ManagedByLabel] = v1alpha1.FieldManager
	o.SetLabels(all)
	o.SetNamespace(v1alpha1.Namespace)
}

func alertRules(labels map[string]string) (*Object, error) {
	var rules []any
	if err := loadMonitoring(rulesFile, &rules); err != nil {
		return nil, err
	}
	for _, r := range rules {
		rule, isRule := r.(map[string]any)
		notes, hasNotes := rule["annotations"].(map[string]any)
		if !isRule || !hasNotes {
			return nil, fmt.Errorf("decode %s: a rule has no annotations", rulesFile)
		}
		notes["runbook_url"] = runbook
	}
	o := &Object{Object: map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": map[string]any{"name": rulesName},
		"spec": map[string]any{"groups": []any{map[string]any{"name": rulesName, "rules": rules}}},
	}}
	ours(o, labels)
	return o, nil
}

// leases stands in queries for the Leases of all providers: the same rules serve each of them.
const leases = "LEASES"

// loadMonitoring decodes a file of queries.
func loadMonitoring(name string, into any) error {
	data, err := files.ReadFile(name)
	if err != nil {
		return err
	}
	var all []string
	for _, provider := range templates.Names() {
		p, err := templates.Load(provider)
		if err != nil {
			return err
		}
		all = append(all, p.LeaseName())
	}
	slices.Sort(all)
	data = bytes.ReplaceAll(data, []byte(leases), []byte(strings.Join(slices.Compact(all), "|")))
	return decode(name, data, into)
}

// dashboard is one of the list in the file. Its name is that of the ConfigMap, and Grafana's UID.
type dashboard struct {
	Name, Title string
	Panels      []panel
}

// panel shows a query. Kind is stat, or empty for a graph over time; Unit is Grafana's name of one; Legend is of a series.
type panel struct{ Title, Kind, Unit, Query, Legend string }

func dashboards() ([]*Object, error) {
	var boards []dashboard
	if err := loadMonitoring(dashboardsFile, &boards); err != nil {
		return nil, err
	}
	var list []*Object
	for _, d := range boards {
		data, err := d.grafana()
		if err != nil {
			return nil, err
		}
		meta := objectMeta(d.Name)
		meta.Labels = map[string]string{dashboardLabel: "1"}
		o, err := toObject(&corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta,
			Data: map[string]string{d.Name + ".json": string(data)},
		})
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// grafana returns the dashboard in the format that Grafana imports: numbers in a row of four, graphs two in a row of 24 columns.
func (d *dashboard) grafana() ([]byte, error) {
	source := map[string]any{"type": "prometheus", "uid": "${datasource}"}
	panels, x, y, height := []any{}, 0, 0, 0
	for i, p := range d.Panels {
		kind, w, h := "timeseries", 12, 8
		if p.Kind == "stat" {
			kind, w, h = p.Kind, 6, 4
		}
		if x+w > 24 || h != height && x > 0 {
			x, y = 0, y+height
		}
		height = h
		panels = append(panels, map[string]any{
			"id": i + 1, "type": kind, "title": p.Title, "datasource": source,
			"gridPos":     map[string]any{"x": x, "y": y, "w": w, "h": h},
			"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.unit(), "min": 0}, "overrides": []any{}},
			"targets":     []any{map[string]any{"refId": "A", "datasource": source, "expr": p.Query, "legendFormat": p.Legend}},
		})
		x += w
	}
	return json.MarshalIndent(map[string]any{
		"uid": d.Name, "title": d.Title, "tags": []string{v1alpha1.FieldManager}, "schemaVersion": 39, "editable": true,
		"refresh": "30s", "time": map[string]any{"from": "now-6h", "to": "now"}, "panels": panels,
		"templating": map[string]any{"list": []any{map[string]any{
			"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
		}}},
	}, "", "  ")
}

func (p panel) unit() string {
	if p.Unit == "" {
		return "short"
	}
	return p.Unit
}
