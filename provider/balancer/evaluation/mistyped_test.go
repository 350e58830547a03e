package evaluation

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestMistyped(t *testing.T) {
	annotated := func(annotations map[string]string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	}
	for _, tt := range []struct{ name, key, want string }{
		{"a slip", "ccmadm.dev/address-pol", "did you mean ccmadm.dev/address-pool?"},
		{"too few letters", "ccmadm.dev/address", "did you mean ccmadm.dev/addresses?"},
		{"no slip", "ccmadm.dev/colour", "annotation ccmadm.dev/colour is unknown"},
		{"of a claim", v1alpha1.ClaimSharersAnnotation, "annotation ccmadm.dev/sharers is unknown"},
		{"ours", v1alpha1.PoolAnnotation, ""},
		{"what we write", v1alpha1.AllocatedAnnotation, ""},
		{"somebody else's", "example.com/address-pol", ""},
		{"of a name below ours", "lb.ccmadm.dev/address-pol", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := mistyped(annotated(map[string]string{tt.key: "x"}))
			if (got == "") != (tt.want == "") || !strings.HasSuffix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	many := map[string]string{}
	for i := range 2000 {
		many[fmt.Sprintf("ccmadm.dev/%d", i)] = "x"
	}
	if got := mistyped(annotated(many)); len(got) > 1024 {
		t.Errorf("a condition cannot say that: %d bytes", len(got))
	}
}

func TestMistyped_Labels(t *testing.T) {
	for _, tt := range []struct{ name, key, want string }{
		{"ours", v1alpha1.EgressLabel, ""},
		{"a slip", "ccmadm.dev/egres", "label ccmadm.dev/egres is unknown: did you mean ccmadm.dev/egress?"},
		{"an annotation", v1alpha1.PoolAnnotation, "label ccmadm.dev/address-pool has no effect: it is an annotation"},
		{"of a Node", v1alpha1.RackLabel, ""},
		{"of another project", "example.com/egres", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{tt.key: "true"}}}
			if got := mistyped(service); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// An annotation that is made for Services is known.
func TestMistyped_KnowsAll(t *testing.T) {
	source, err := os.ReadFile("../../../api/v1alpha1/names.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`// (\w+Annotation) on (?:a Service|Services)\b`).FindAllStringSubmatch(string(source), -1)
	for _, name := range names {
		value := regexp.MustCompile(`\b` + name[1] + `\s+= "(.+)"`).FindStringSubmatch(string(source))
		if value == nil || !slices.Contains(serviceAnnotations(), value[1]) {
			t.Errorf("%s, %q, would be called unknown", name[1], value)
		}
	}
	if len(names) < len(serviceAnnotations()) {
		t.Errorf("only %d annotations are found in the source", len(names))
	}
}
