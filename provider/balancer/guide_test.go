package balancer

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What the tables of tests name is there.
func TestGuide_TestsOfLoadBalancers(t *testing.T) {
	var table []byte
	for _, page := range []string{"load-balancer-tests.md", "metallb-tests.md"} {
		content, err := os.ReadFile(filepath.Join("../../docs/contributing", page))
		if err != nil {
			t.Fatal(err)
		}
		table = append(table, content...)
	}
	missing := map[string]bool{}
	for _, name := range regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`").FindAllStringSubmatch(string(table), -1) {
		missing[name[1]] = true
	}
	if len(missing) < 30 {
		t.Fatalf("the table names %d tests", len(missing))
	}
	for _, dir := range []string{"../../agent", "../../api", "../../provider", "../../cmd", "../../test/e2e"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for name := range missing {
				if strings.Contains(string(source), "\nfunc "+name+"(") {
					delete(missing, name)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range missing {
		t.Errorf("there is no %s", name)
	}
}
