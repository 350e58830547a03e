package adoption

import (
	"os"
	"testing"

	"github.com/ccmadm/ccmadm/phases/phasestest"
)

func TestMain(m *testing.M) { os.Exit(phasestest.Main(m)) }
