package manifests

import (
	"slices"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// test/monitoring tries the rules and the queries of this golden file.
func TestMonitoring(t *testing.T) {
	list, err := Monitoring(map[string]string{"release": "kube-prometheus-stack"})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, list)
	var kinds []string
	for _, o := range list {
		kinds = append(kinds, o.GetKind())
		_, selected := o.GetLabels()["release"]
		if want := slices.Contains([]string{"ServiceMonitor", "PrometheusRule"}, o.GetKind()); selected != want {
			t.Errorf("%s/%s has the label of the Prometheus: %t, want %t", o.GetKind(), o.GetName(), selected, want)
		}
		if o.GetNamespace() != v1alpha1.Namespace || o.GetLabels()[v1alpha1.ManagedByLabel] != v1alpha1.FieldManager {
			t.Errorf("%s/%s is in namespace %q with labels %v", o.GetKind(), o.GetName(), o.GetNamespace(), o.GetLabels())
		}
	}
	const want = "Service ServiceMonitor PodMonitor PodMonitor PodMonitor PrometheusRule ConfigMap ConfigMap"
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("it renders %s, want %s", got, want)
	}
}

// What is scraped listens where the manifests say.
func TestMonitoring_Ports(t *testing.T) {
	scrape, err := files.ReadFile(scrapeFile)
	if err != nil {
		t.Fatal(err)
	}
	for file, port := range map[string]string{"pod.yaml": "10258", "nodeagent.yaml": "10392", "vip.yaml": "10394", "serving.yaml": "10269"} {
		data, err := files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), port) || !strings.Contains(string(scrape), port) {
			t.Errorf("port %s is not in both of %s and %s", port, file, scrapeFile)
		}
	}
}
