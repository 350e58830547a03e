// Package scale measures the cloud-controller-manager, as a process, against a real kube-apiserver and etcd: thousands
// of Nodes at once, next to a bare client that writes the same and nothing else.
//
// Start at BenchmarkScale in scale_test.go; `make bench` runs it. Only ratios of one run mean something: the box may be
// busy, and API server, etcd and both clients share its cores.
//
// Reads: the binary that -ccm names, and those that manifests/manifeststest finds.
// Writes: temporary directories, gone at the end.
// Running it twice: every run has a control plane of its own.
package scale

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

var (
	binary = flag.String("ccm", "../../bin/cloud-controller-manager", "the cloud-controller-manager to measure")
	crowd  = flag.Int("nodes", 2000, "Nodes that appear at once")
	size   = flag.Int("cluster", 5000, "Nodes of the cluster in which memory and requests are measured")
)

// plane is the control plane of the run, and the log of what user did there.
var plane struct {
	*manifeststest.ControlPlane
	auditLog string
}

// user is the one that ccmadm's static pod is, and the bare client, too: both wait in the same queue.
const user = "system:cloud-controller-manager"

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata, users: ["` + user + `"]}, {level: None}]
`

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" { // there is nothing else here
		os.Exit(m.Run())
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintf(os.Stderr, "scale: %v\nscale: run it as `make bench`, which builds what is missing\n", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if _, err := os.Stat(*binary); err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "ccm-scale-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return 1, err
	}
	plane.auditLog = filepath.Join(dir, "audit.log")
	plane.ControlPlane, err = manifeststest.Start("--audit-policy-file="+policy, "--audit-log-path="+plane.auditLog)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	return m.Run(), nil
}
