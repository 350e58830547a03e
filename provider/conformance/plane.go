package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startPlane starts etcd and kube-apiserver on loopback, until the test ends. envtest finds the binaries.
func startPlane(t *testing.T) (*rest.Config, error) {
	t.Helper()
	env := &envtest.Environment{ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	config, err := env.Start()
	if err != nil {
		err = errors.Join(err, env.Stop()) // else etcd outlives a kube-apiserver that did not start
		return nil, fmt.Errorf("start an API server (KUBEBUILDER_ASSETS names the directory of kube-apiserver and etcd; "+
			"Options.Config another API server): %w", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	return config, nil
}
