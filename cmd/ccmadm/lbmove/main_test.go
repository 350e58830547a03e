package lbmove

import (
	"os"
	"testing"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// plane is the control plane of tests whose name starts with TestCluster; -short leaves those out.
var plane *manifeststest.ControlPlane

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &plane)) }
