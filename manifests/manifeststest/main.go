package manifeststest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Main runs the tests of a package and returns the exit status for its TestMain. Those whose names start with
// TestCluster or BenchmarkCluster share one control plane, which it puts into cluster; -short leaves them out.
func Main(m *testing.M, cluster **ControlPlane, flags ...string) int {
	flag.Parse()
	if testing.Short() {
		if err := flag.Set("test.skip", "^(TestCluster|BenchmarkCluster)"); err != nil {
			return fail(err)
		}
		return m.Run()
	}
	if !testing.Verbose() { // controllers log every error that a test provokes, and hide those of the tests
		klog.SetLogger(logr.Discard())
	}
	var err error
	if *cluster, err = Start(flags...); err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := (*cluster).Stop(); err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
