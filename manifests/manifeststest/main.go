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
// TestCluster or BenchmarkCluster share one control plane, which it puts into cluster; see LeaveOut.
func Main(m *testing.M, cluster **ControlPlane, flags ...string) int {
	if leave, err := LeaveOut(); err != nil || leave {
		return run(m, err)
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

// LeaveOut reports whether a TestMain is to run its tests without a control plane, and has those named TestCluster or
// BenchmarkCluster skipped: with -short, and where there are no binaries of a control plane, which it says. With
// CCMADM_TEST=cluster, as in `make unit`, what is missing has to fail instead.
func LeaveOut() (bool, error) {
	flag.Parse()
	missing := !testing.Short() && !HaveBinaries()
	if clusterAsked() || !testing.Short() && !missing {
		return false, nil
	}
	if missing {
		fmt.Println("left to `make unit`, which builds kube-apiserver and etcd: all tests named TestCluster...")
	}
	return true, flag.Set("test.skip", "^(TestCluster|BenchmarkCluster)")
}

// clusterAsked reports whether nothing may be left out.
func clusterAsked() bool { return os.Getenv("CCMADM_TEST") == "cluster" }

func run(m *testing.M, err error) int {
	if err != nil {
		return fail(err)
	}
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
