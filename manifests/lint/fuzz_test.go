package lint_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/manifests/edit/edittest"
	"github.com/ccmadm/ccmadm/manifests/lint"
)

// scribbled are the comments that Scribble leaves.
var scribbled = regexp.MustCompile(`# (right|above) \d+`)

// FuzzFix fixes whatever parses, and expects that the result parses, that no comment is lost, and that there is nothing
// to fix the second time.
func FuzzFix(f *testing.F) {
	bad := strings.NewReplacer(
		"hostNetwork: true",
		"hostNetwork: false",
		"not-ready",
		"ready",
		"      dnsPolicy: Default\n",
		"",
		"        - --configure-cloud-routes=false\n",
		"",
	).Replace(
		good,
	)
	flow := `{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "cloud-controller-manager", "namespace": "kube-system"},
  "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x/ccm:v1", "args": ["--cloud-provider=aws"]}]}}}}
`
	for _, text := range []string{good, bad, flow, strings.ReplaceAll(bad, "\n", "\r\n")} {
		for seed := range uint64(40) {
			f.Add(text, seed)
		}
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) { checkFix(t, edittest.Scribble(text, seed)) })
}

func checkFix(t *testing.T, input string) {
	t.Helper()
	file, err := lint.Parse("fuzz.yaml", []byte(input))
	if err != nil {
		return
	}
	set := &lint.Set{Files: []*lint.File{file}}
	_, left, err := lint.Fix(set.Check)
	output := string(file.Bytes())
	if err != nil {
		if _, err := parse(t, input).Check(); err == nil {
			t.Errorf("what could be checked cannot be any more:\n%s", output)
		}
		return
	}
	for _, finding := range left {
		if finding.Line < 1 || finding.Line > strings.Count(output, "\n")+1 {
			t.Errorf("%s is at line %d", finding.ID, finding.Line)
		}
	}
	for _, comment := range scribbled.FindAllString(input, -1) {
		if strings.Count(output, comment) != strings.Count(input, comment) {
			t.Errorf("lost %q:\n%s", comment, output)
		}
	}
	again := parse(t, output)
	fixed, _, err := lint.Fix(again.Check)
	if err != nil || len(fixed) > 0 {
		t.Errorf("the second time: fixed %q, error %v, of\n%s", summary(fixed), err, output)
	}
	if diff := cmp.Diff(output, string(again.Files[0].Bytes())); diff != "" {
		t.Errorf("the second time changed the text (-first +second):\n%s", diff)
	}
}
