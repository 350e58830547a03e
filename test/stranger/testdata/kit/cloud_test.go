package cloud

import (
	"testing"

	"github.com/ccmadm/ccmadm/provider/conformance"
	cloudprovider "k8s.io/cloud-provider"
)

func TestConformance(t *testing.T) {
	var mine cloudprovider.Interface // the stranger's own
	conformance.Run(t, conformance.Options{New: func() (conformance.Cloud, error) {
		return conformance.Cloud{Provider: mine}, nil
	}})
}
