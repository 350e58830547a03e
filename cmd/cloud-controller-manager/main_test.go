package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// TestMain lets the test binary be this command, too: tests start it under its
// name as a process of its own, and end it as a kubelet would.
func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"cloud-controller-manager": main})
}

func TestCommand(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata"})
}

// plane is what the tests of this package named TestCluster... share.
var plane struct {
	*manifeststest.ControlPlane
	auditLog string
}

// suite starts the control plane before the tests, but not with -short.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	leave, err := manifeststest.LeaveOut()
	if err != nil {
		return fail(err)
	}
	if leave {
		return s.m.Run()
	}
	dir, err := os.MkdirTemp("", "ccm-test-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fail(err)
	}
	plane.auditLog = filepath.Join(dir, "audit.log")
	plane.ControlPlane, err = manifeststest.Start("--audit-policy-file="+policy, "--audit-log-path="+plane.auditLog,
		"--enable-bootstrap-token-auth=true")
	if err != nil {
		return fail(err)
	}
	code := s.m.Run()
	if err := plane.Stop(); err != nil {
		return fail(err)
	}
	return code
}

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
`

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
