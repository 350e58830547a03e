package manifests

import (
	"flag"
	"log"
	"os"
	"testing"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// cluster is the control plane that all tests share whose name starts with TestCluster; -short leaves those out.
var cluster *manifeststest.ControlPlane

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		if err := flag.Set("test.skip", "^(TestCluster|BenchmarkCluster)"); err != nil {
			log.Fatal(err)
		}
		os.Exit(m.Run())
	}
	var err error
	if cluster, err = manifeststest.Start(); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	if err := cluster.Stop(); err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}
