package journal

import (
	"os"
	"testing"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

var cluster *manifeststest.ControlPlane

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &cluster)) }
