package manifeststest

import (
	"os"
	"testing"
)

// NeedRoot leaves a test out that makes network namespaces: with -short, and where it may not. With CCMADM_TEST=cluster,
// as in `make unit`, it fails instead.
func NeedRoot(t testing.TB) {
	t.Helper()
	asked, root := clusterAsked(), os.Geteuid() == 0
	switch {
	case asked && !root:
		t.Fatal("network namespaces need root")
	case !asked && (testing.Short() || !root):
		t.Skip("left to `make unit` as root: it makes network namespaces")
	}
}
