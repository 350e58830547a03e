package balancer

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

func TestMistyped(t *testing.T) {
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
			got := mistyped(newWorld().add("web", annotated(tt.key, "x")))
			if (got == "") != (tt.want == "") || !strings.HasSuffix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	many := newWorld().add("web")
	for i := range 2000 {
		many.Annotations[fmt.Sprintf("ccmadm.dev/%d", i)] = "x"
	}
	if got := mistyped(many); len(got) > 1024 {
		t.Errorf("a condition cannot say that: %d bytes", len(got))
	}
}

// An annotation that is made for Services is known.
func TestMistyped_KnowsAll(t *testing.T) {
	source, err := os.ReadFile("../../api/v1alpha1/names.go")
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

// Who mistypes an annotation is told in the condition, and once by an Event, also where the Service has an address.
func TestCluster_Mistyped(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50"))
	c.create("web", annotated("ccmadm.dev/address-pol", "other"))
	const want = "annotation ccmadm.dev/address-pol is unknown: did you mean ccmadm.dev/address-pool?"
	s := c.within(5*time.Second, "web", reasonIs(allocator.AnnouncedReason))
	if !strings.HasSuffix(allocator.Condition(s).Message, "; "+want) {
		t.Errorf("the condition says %q", allocator.Condition(s).Message)
	}
	c.patch("web", `{"metadata":{"annotations":{"a":"b"}}}`)
	c.patch("web", `{"metadata":{"annotations":{"ccmadm.dev/address-pol":null}}}`)
	c.within(5*time.Second, "web", func(s *corev1.Service) bool {
		return reasonIs(allocator.AnnouncedReason)(s) && allocator.Condition(s).Message == "192.0.2.50 at level L2"
	})
	if told := c.told(); strings.Count(told, "Warning UnknownAnnotation "+want) != 1 {
		t.Errorf("Events: %s", told)
	}
}
