package routes

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// Tests named TestKernel... need network namespaces of their own, and with them root. `make unit` sets
// CCMADM_TEST=cluster and has them fail without; `go test` leaves them out, and says so.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Geteuid() != 0 && os.Getenv("CCMADM_TEST") != "cluster" {
		fmt.Println("left to root: all tests named TestKernel..., which make network namespaces")
		if err := flag.Set("test.skip", "^(TestKernel|BenchmarkKernel)"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
