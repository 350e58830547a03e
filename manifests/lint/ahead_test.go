package lint_test

import (
	"fmt"
	"strings"
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

// A list of namespaces that gives no consent is found where it stands; one that can be read is not.
func TestSet_Check_ShareNamespaces(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  annotations:\n    ccmadm.dev/share-namespaces: %q\n"
	for list, want := range map[string]string{
		"": "", "shop,mail": "", "*": "list the namespaces by name", "shop,,mail": "empty name", "Shop": "is no name of a namespace",
	} {
		found, err := parse(t, fmt.Sprintf(service, list)).Check()
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && len(found) == 0 {
			continue
		}
		if summary(found) != "L5:6" || !strings.Contains(found[0].Message, want) {
			t.Errorf("%q: found %s %+v, want L5 in line 6: %q", list, summary(found), found, want)
		}
	}
}
