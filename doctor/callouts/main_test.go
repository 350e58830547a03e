package callouts

import (
	"os"
	"testing"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// cluster is the control plane that all tests share whose name starts with TestCluster; -short leaves those out.
var cluster *manifeststest.ControlPlane

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &cluster)) }
