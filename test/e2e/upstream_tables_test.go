package e2e

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// TestTablesUpstreamReport reads what Ginkgo writes: tests beyond the focus are skipped without a message of their own.
func TestTablesUpstreamReport(t *testing.T) {
	got := readJUnit(t, `<testsuites><testsuite>
<testcase name="[SynchronizedBeforeSuite]" status="passed"></testcase>
<testcase name="[It] a" status="passed"></testcase>
<testcase name="[It] b" status="failed"><failure message="b is wrong">stack</failure></testcase>
<testcase name="[It] c" status="timedout"></testcase>
<testcase name="[It] d" status="skipped"><skipped message="skipped - needs two nodes"></skipped></testcase>
<testcase name="[It] beyond" status="skipped"><skipped message="skipped"></skipped></testcase>
<testcase name="[ReportAfterSuite]" status="failed"><failure message="no end"></failure></testcase>
</testsuite></testsuites>`)
	want := suiteResult{
		passed:  1,
		failed:  map[string]string{"b": "b is wrong", "c": "timedout", "[ReportAfterSuite]": "no end"},
		skipped: map[string]string{"d": "needs two nodes"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(suiteResult{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	known := loadBalancers().known[v1alpha1.LevelL2]
	if because(known, "should be able to switch session affinity for LoadBalancer service with Local traffic policy") == "" {
		t.Error("the test that L2 cannot pass is not known")
	}
	for _, name := range []string{
		"should work for type=LoadBalancer",
		"should have session affinity work for LoadBalancer service with Local traffic policy",
	} {
		if why := because(known, name); why != "" {
			t.Errorf("%q has to pass, and is known to fail: %s", name, why)
		}
	}
}
