package conformance_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/provider/conformance"
)

// plane is what the tests of this package named TestCluster... share.
var plane *manifeststest.ControlPlane

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if leave, err := manifeststest.LeaveOut(); err != nil || leave {
		return m.Run(), err
	}
	if !testing.Verbose() { // controllers log every error that a rule provokes
		klog.SetLogger(logr.Discard())
	}
	if plane, err = manifeststest.Start(); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	return m.Run(), nil
}

// The provider with which broken ones are compared has every role and every hook: nothing is skipped.
func TestCluster_Scripted(t *testing.T) {
	results := conformance.Check(t.Context(), conformance.Options{
		Config: plane.Config,
		New:    func() (conformance.Cloud, error) { return newScripted().cloud(), nil },
	})
	if want := len(conformance.Rules()); len(results) != want {
		t.Errorf("%d rules were checked, want %d", len(results), want)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Errorf("%s: %v", r.Rule.Name, r.Err)
		}
	}
}
