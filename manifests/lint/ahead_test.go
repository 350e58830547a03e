package lint_test

import (
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Of Services, what a later kube-proxy does not serve is a note before that version, and a warning from it on.
func TestSet_Check_Ahead(t *testing.T) {
	for minor, want := range map[int]finding.Severity{0: finding.SeverityNote, 39: finding.SeverityNote, 40: finding.SeverityWarning} {
		set := parse(t, "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  externalIPs: [192.0.2.7]\n---\n"+
			"apiVersion: v1\nkind: Service\nmetadata: {name: none}\nspec:\n  externalIPs: []\n")
		set.Minor = minor
		findings, err := set.Check()
		if err != nil || len(findings) != 1 || findings[0].Severity != want || summary(findings) != "U18:5" {
			t.Errorf("1.%d: got %s %v, %v, want one %s", minor, summary(findings), findings, err, want)
		}
	}
}
