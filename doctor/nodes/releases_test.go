package nodes

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestJudge_OtherReleases(t *testing.T) {
	node := func(name, release string, labels map[string]string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.ReleaseAnnotation, release)
		return n
	}
	controlPlane := map[string]string{v1alpha1.ControlPlaneLabel: ""}
	for _, tt := range []struct {
		name, second string
		labels       map[string]string
		want         string
	}{
		{name: "one release", second: "v0.2.0", labels: controlPlane},
		{name: "nothing is known", labels: controlPlane},
		{name: "a worker's", second: "v0.1.0"},
		{name: "two", second: "v0.1.0\x1b[2J", labels: controlPlane, want: "ccmadm: v0.2.0 on cp1, cp3; v0.1.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &Facts{Now: time.Now(), Nodes: []corev1.Node{
				node("cp1", "v0.2.0", controlPlane), node("m2", tt.second, tt.labels),
				node("cp3", "v0.2.0", controlPlane),
			}}
			var got string
			for _, found := range Judge(f, nil).Findings {
				if found.ID == finding.OtherRelease {
					got = found.Message
				}
			}
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) || strings.Contains(got, "\x1b") {
				t.Errorf("it says %q, want %q", got, tt.want)
			}
		})
	}
}
