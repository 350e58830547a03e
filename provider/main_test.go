package provider

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// plane is what the tests of this package named TestCluster... share.
var plane *manifeststest.ControlPlane

// TestMain starts the control plane before the tests, but not with -short.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if testing.Short() {
		if err := flag.Set("test.skip", "^TestCluster"); err != nil {
			return fail(err)
		}
		return m.Run()
	}
	if !testing.Verbose() { // controllers log every error that a test provokes, and hide those of the tests
		klog.SetLogger(logr.Discard())
	}
	var err error
	if plane, err = manifeststest.Start(); err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := plane.Stop(); err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
