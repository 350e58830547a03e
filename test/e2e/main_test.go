// Package e2e runs ccmadm on real machines: systemd, containerd, kubelet, kubeadm and the control plane that kubeadm
// makes, as `make e2e` builds and boots them.
//
// Reads: bin/ccmadm, bin/lab and bin/images of the repository. Needs root. Tests run when they are asked for, by the
// flag -kubernetes, as `make e2e` does. Then nothing is skipped: what is missing fails. Without it only those run that
// need no machine, whose names begin with TestTables.
package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var (
	kubernetesMinor = flag.String("kubernetes", "", "minor version of the machines' Kubernetes; without it no test runs")
	labPrefix       = flag.String("labs", "e2e", "what the names of labs begin with; two runs at once need two")
	proxyMode       = flag.String("proxy", "nftables", "kube-proxy's mode where load balancers are measured")
	allFaults       = flag.Bool("faults", false, "inject every fault of the library, pairs of them, and unknown ones; else two of each kind, and one pair")
	update          = flag.Bool("update", false, "rewrite the page of upstream's tests from the results of its runs")
	metallbFocus    = flag.String("metallb", ".", "which of MetalLB's own tests run, as a regular expression over their names")
	distFolder      = flag.String("dist", "", "folder of a release that machines install from; see make release-machines")
	contenders      = flag.Bool("contenders", false, "measure other programs, too, on the same machines after ours")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *kubernetesMinor == "" {
		fmt.Println("left to `make e2e`: real machines take root, the lab and minutes")
		os.Exit(withoutMachines(m))
	}
	if err := prepared(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\ne2e: run it as `make e2e`, which builds what is missing\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// withoutMachines runs what compares tables with what is written of them. Who asks for something else by -run gets nothing.
func withoutMachines(m *testing.M) int {
	if asked := flag.Lookup("test.run").Value.String(); asked != "" && !strings.HasPrefix(asked, "TestTables") {
		fmt.Println("testing: warning: no tests to run") // so that the go command says so, too
		return 0
	}
	if err := errors.Join(flag.Set("test.run", "^TestTables"), flag.Set("test.bench", "")); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		return 1
	}
	return m.Run()
}

func prepared() error {
	var missing []error
	if os.Geteuid() != 0 {
		missing = append(missing, errors.New("not root"))
	}
	for _, path := range []string{labBinary, ccmadmBinary, ccmImage} {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, err)
		}
	}
	return errors.Join(missing...)
}
