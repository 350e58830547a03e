package manifests_test

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/ccmadm/ccmadm/manifests"
)

// gofmt turns two quotes in the comment of a type, where rules are written, into one of print, which is no CEL.
func TestCRDs_RulesAreASCII(t *testing.T) {
	objects, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	rule, rules := regexp.MustCompile(`"rule":"[^"]*[^\x00-\x7f][^"]*"`), 0
	for _, o := range objects {
		data, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		rules += len(regexp.MustCompile(`"rule":`).FindAll(data, -1))
		if found := rule.Find(data); found != nil {
			t.Errorf("%s: %s", o.GetName(), found)
		}
	}
	if rules == 0 {
		t.Error("no CustomResourceDefinition has a rule")
	}
}
