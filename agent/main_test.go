package agent

import (
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// plane is what the tests named TestCluster... share.
var plane *manifeststest.ControlPlane

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &plane)) }

// ownNamespace is a network namespace that ends with the test.
func ownNamespace(t *testing.T) {
	t.Helper()
	manifeststest.NeedRoot(t)
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and its namespace with it
	_, err := netns.New()
	must(t, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }
