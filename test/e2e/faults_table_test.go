package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The clusters of the library, by which docs/contributing/faults.md is divided.
const (
	objectCluster     = "Objects and kubelets, provider onprem"
	staticCluster     = "Static pod, provider onprem"
	daemonSetCluster  = "DaemonSet, provider onprem"
	deploymentCluster = "Deployment, provider onprem"
	cloudCluster      = "OpenStack's own manager, static pod"
	cloudSetCluster   = "OpenStack's own manager, DaemonSet"
)

// faultTable is what a run of the library has seen: bin/measured/faults-*.md, of which `make faults` makes docs/contributing/faults.md.
type faultTable struct {
	mu   sync.Mutex
	rows map[string][]string
}

func (ft *faultTable) add(o outcome, ok bool) {
	ft.mu.Lock()
	defer ft.mu.Unlock()
	detected, worked := "yes", "yes"
	switch {
	case !ok && o.Remedy == "":
		detected, worked = "NO: "+cell(o.Known), "-"
	case !ok:
		worked = "NO: " + cell(o.Known)
	case o.Chosen:
		worked = "chosen"
	}
	ft.rows[o.Cluster] = append(ft.rows[o.Cluster], fmt.Sprintf("| %s | %s | %s | %s | %.0f | %s | `%s` | %.0f |",
		o.ID, cell(o.What), detected, cell(o.Transit), o.Found, worked, cell(o.Remedy), o.Restored))
}

func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "\n", " ")
}

// write puts the clusters one below the other, in this order.
func (ft *faultTable) write(t *testing.T, name string, clusters ...string) {
	t.Helper()
	var b strings.Builder
	for _, c := range clusters {
		fmt.Fprintf(&b, "\n## %s\n\n", c)
		b.WriteString("| ID | Injected | Root cause | On the way | s | Remedy worked | Remedy | s |\n|---|---|---|---|---|---|---|---|\n")
		b.WriteString(strings.Join(ft.rows[c], "\n") + "\n")
	}
	path := measuredFile(t, "faults-"+name+".md")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("table: %s", path)
}

// measuredFile is where a run keeps what it has seen, in a folder that is there.
func measuredFile(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../bin/measured/" + name)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}
